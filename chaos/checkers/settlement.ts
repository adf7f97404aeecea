import { ENDED, type JobState } from "../../src/core/job.ts";
import { type Digest, groupBy } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { Finding, type Verdict } from "./verdict.ts";

/**
 * I2, one settlement: every job ends once (once more after each retry command), every lease is settled once,
 * and the stored end is the one that the holder of the last lease reported.
 */
export function oneSettlement(history: Digest, final: Final): Verdict {
  const found = new Finding("I2", "leases");
  const retries = new Map<string, number>();
  for (const { action, ids } of history.changes) {
    if (action !== "retry") continue;
    for (const id of ids ?? []) retries.set(id, (retries.get(id) ?? 0) + 1);
  }
  const byJob = groupBy(history.settles, ({ job }) => job);
  for (const [job, settles] of byJob) {
    const accepted = settles.filter(({ verdict }) => verdict === "accepted");
    const ends = accepted.filter(({ to }) => ENDED.includes(to as JobState)).length;
    const most = 1 + (retries.get(job) ?? 0);
    found.check(ends <= most, () => `job ${job} ended ${ends} times`);
    for (const [token, same] of groupBy(accepted, (settle) => String(settle.token))) {
      found.check(same.length === 1, () => `lease ${token} of job ${job} was settled ${same.length} times`);
    }
  }
  for (const { id, state, token, result } of final.jobs) {
    if (state !== "completed") continue;
    const said = (byJob.get(id) ?? []).some(
      (settle) => settle.to === "completed" && settle.token === token && settle.verdict !== "stale",
    );
    found.check(said, () => `job ${id} is completed under token ${token}, and no worker reported that with this token`);
    const by = tokenIn(result);
    found.check(by === undefined || by === token, () => `the result of job ${id} is of lease ${by}, not ${token}`);
  }
  return found.verdict;
}

/** Handlers of the harness answer with the token of their lease. */
function tokenIn(result: string | null): number | undefined {
  if (result === null) return undefined;
  const value = JSON.parse(result) as { readonly token?: unknown } | null;
  return typeof value?.token === "number" ? value.token : undefined;
}
