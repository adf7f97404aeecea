import { type Digest, groupBy } from "../history/digest.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

/**
 * A handler whose process was paused beyond its lease finds its signal aborted soon after the process runs again. The time
 * counts from when its event loop ran again, for the machine may be slow to wake it.
 */
export function abortedAfterPause(
  history: Digest,
  { leaseMs, withinMs }: { leaseMs: number; withinMs: number },
): Verdict {
  const found = new Finding("abort", "pauses");
  let slowest = 0;
  for (const { p, hr, kind, value } of history.notes) {
    if (kind !== "paused" || value < leaseMs) continue;
    const began = hr - value;
    for (const run of history.runs) {
      if (run.p !== p || run.from > began) continue;
      // A run that ended by itself meanwhile needed no stop.
      if (run.until !== null && run.until <= hr + withinMs) continue;
      const before = history.aborts.some(({ token, hr: at }) => token === run.token && at < began);
      if (before) continue;
      const abort = history.aborts.find(({ token, p: own }) => own === p && token === run.token);
      const took = abort === undefined ? Number.POSITIVE_INFINITY : abort.hr - hr;
      slowest = Math.max(slowest, took);
      found.check(took <= withinMs, () => `${p}: job ${run.job} was told to stop ${round(took)} ms after the pause`);
    }
  }
  found.note = `slowest ${round(slowest)} ms`;
  return found.verdict;
}

/** A tick, and what comes between it and the handler that blocks its process. */
const NEAR_MS = 50;

/** A worker whose process was blocked or paused for a lease while a handler ran reports it soon after. */
export function warnedAfterPause(
  history: Digest,
  { leaseMs, withinMs }: { leaseMs: number; withinMs: number },
): Verdict {
  const found = new Finding("warned", "pauses");
  const warnings = history.notes.filter(
    ({ kind, text }) => kind === "error" && text.includes("event loop was blocked"),
  );
  for (const { p, hr, kind, value } of history.notes) {
    if (kind !== "paused" || value < leaseMs) continue;
    const ran = ({ p: own, from, until }: Digest["runs"][number]) =>
      own === p && from <= hr - value + NEAR_MS && (until === null || until >= hr - NEAR_MS);
    if (!history.runs.some(ran)) continue;
    const said = warnings.some(({ p: own, hr: at }) => own === p && at >= hr - value && at <= hr + withinMs);
    found.check(said, () => `${p} stood still for ${round(value)} ms while a handler ran, and did not say so`);
  }
  return found.verdict;
}

/** A worker that receives a signal to stop claims nothing more, and exits in time with code 0. */
export function stopsInTime(
  history: Digest,
  exits: ReadonlyMap<string, { readonly hr: number; readonly code: number | null }>,
  { claimMs, exitMs }: { readonly claimMs: number; readonly exitMs: number },
): Verdict {
  const found = new Finding("stop", "stops");
  let slowest = 0;
  for (const { p, hr, kind } of history.notes) {
    if (kind !== "term") continue;
    const late = history.claims.find((claim) => claim.p === p && claim.from > hr + claimMs);
    found.check(late === undefined, () => `${p} claimed ${round(late!.from - hr)} ms after it was told to stop`);
    const exit = exits.get(p);
    if (exit === undefined) {
      found.check(false, () => `${p} did not end`);
      continue;
    }
    const took = exit.hr - hr;
    slowest = Math.max(slowest, took);
    found.check(took <= exitMs, () => `${p} took ${round(took)} ms to end, ${round(exitMs)} allowed`);
    found.check(exit.code === 0, () => `${p} ended with code ${exit.code}`);
  }
  found.note = `slowest exit ${round(slowest)} of ${round(exitMs)} ms`;
  return found.verdict;
}

/** What a stopping worker gave back has not spent an attempt: the next lease has the same number. */
export function attemptsKept(history: Digest): Verdict {
  const found = new Finding("given back", "jobs");
  const claims = new Map(history.claims.map((claim) => [`${claim.job} ${claim.token}`, claim]));
  for (const { job, token, to, verdict } of history.settles) {
    const claim = claims.get(`${job} ${token}`);
    if (to !== "back" || verdict !== "accepted" || claim === undefined) continue;
    const next = history.claims
      .filter((other) => other.job === job && other.token > token)
      .reduce<typeof claim | undefined>(
        (first, one) => (first === undefined || one.token < first.token ? one : first),
        undefined,
      );
    if (next === undefined) continue;
    // One claim between the two may have died before it was recorded; it counted.
    found.check(
      next.attempt === claim.attempt || next.grantMs - claim.grantMs > next.leaseMs,
      () => `job ${job} was given back in attempt ${claim.attempt}, and is in ${next.attempt}`,
    );
  }
  return found.verdict;
}

/** The signal of a job that is cancelled while it runs is aborted soon, in whatever process, unless that is killed before. */
export function cancelReceived(history: Digest, withinMs: number): Verdict {
  const found = new Finding("cancel", "cancelled runs");
  const killed = new Map(history.faults.flatMap(({ kind, target, hr }) => (kind === "kill" ? [[target, hr]] : [])));
  const runs = groupBy(history.runs, ({ job }) => job);
  let slowest = 0;
  for (const { action, ids, until } of history.changes) {
    if (action !== "cancel" || until === null) continue;
    for (const run of (ids ?? []).flatMap((id) => runs.get(id) ?? [])) {
      const end = Math.min(run.until ?? Number.POSITIVE_INFINITY, killed.get(run.p) ?? Number.POSITIVE_INFINITY);
      if (run.from > until || end < until + withinMs) continue;
      const abort = history.aborts.find(({ token }) => token === run.token);
      const took = abort === undefined ? Number.POSITIVE_INFINITY : abort.hr - until;
      slowest = Math.max(slowest, took);
      found.check(took <= withinMs, () => `${run.p} heard ${round(took)} ms later that job ${run.job} was cancelled`);
    }
  }
  found.note = `slowest ${round(slowest)} ms`;
  return found.verdict;
}

/** Jobs that kill their process are dead after so many attempts, no more and no fewer. */
export function poisonDies(
  history: Digest,
  jobs: readonly { readonly id: string; readonly state: string; readonly attempt: number }[],
  maxAttempts: number,
): Verdict {
  const found = new Finding("poison", "jobs");
  for (const { id, state, attempt } of jobs) {
    const runs = history.runs.filter(({ job }) => job === id).length;
    found.check(state === "dead", () => `job ${id} kills its process, and is ${state}`);
    found.check(attempt === maxAttempts, () => `job ${id} is dead after ${attempt} attempts, not ${maxAttempts}`);
    found.check(runs <= maxAttempts, () => `job ${id} ran ${runs} times, ${maxAttempts} allowed`);
  }
  return found.verdict;
}
