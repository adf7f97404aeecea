import { type Digest, groupBy } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { Finding, type Verdict } from "./verdict.ts";

/**
 * I3, fencing: tokens are given once and grow, and whatever was written with a token after a greater one had been given
 * for the same job was refused.
 */
export function fencing(history: Digest, final: Final): Verdict {
  const found = new Finding("I3", "writes");
  const byJob = groupBy(history.claims, ({ job }) => job);
  const holders = new Map<number, string>();
  for (const { token, job, p } of history.claims) {
    const before = holders.get(token);
    found.check(before === undefined, () => `token ${token} was given to ${before} and to ${job} (${p})`);
    holders.set(token, `${job} (${p})`);
  }
  const overtaken = (job: string, token: number, from: number) =>
    (byJob.get(job) ?? []).find((claim) => claim.token > token && claim.until < from);

  for (const { job, token, from, verdict, to, p } of history.settles) {
    if (verdict !== "accepted") {
      found.n += 1;
      continue;
    }
    const later = overtaken(job, token, from);
    found.check(
      later === undefined,
      () => `${p} made job ${job} ${to} with token ${token}, after ${later?.p} had got ${later?.token}`,
    );
  }
  for (const { job, token, from, kept, p } of history.heartbeats) {
    const later = kept ? overtaken(job, token, from) : undefined;
    found.check(
      later === undefined,
      () => `${p} kept the lease of job ${job} with token ${token}, after ${later?.p} had got ${later?.token}`,
    );
  }
  for (const { id, token } of final.jobs) {
    const greatest = (byJob.get(id) ?? []).reduce((most, claim) => Math.max(most, claim.token), 0);
    found.check(token >= greatest, () => `job ${id} has token ${token}, and ${greatest} was given for it`);
  }
  const refused = history.settles.filter(({ verdict }) => verdict === "stale").length;
  found.note = `${refused} stale writes refused`;
  return found.verdict;
}
