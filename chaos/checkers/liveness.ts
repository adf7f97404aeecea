import type { JobRecord } from "../../src/core/job.ts";
import type { Digest } from "../history/digest.ts";
import { blockedBy, within } from "./blocked.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

export interface LivenessBounds {
  readonly queue: string;
  /** How many handlers each process may run; others do not work for the queue. */
  readonly workers: ReadonlyMap<string, number>;
  readonly longestMs: number;
}

type Change = { readonly at: number; readonly apply: () => void };

/**
 * I13, liveness: nothing waits for longer than so long while a live worker has nothing to do. For queues without limits: a
 * job waits from its acknowledgement to its first start, a worker is free from when it is ready to when it is stopped. Time in
 * which a stopped process has the lock does not count.
 */
export function liveness(history: Digest, { queue, workers, longestMs }: LivenessBounds): Verdict {
  const found = new Finding("I13", "waits");
  const running = new Map<string, number>();
  const live = new Set<string>();
  let waiting = 0;
  const changes: Change[] = [];
  const firsts = new Map<string, number>();
  for (const { job, until } of history.claims) if (!firsts.has(job)) firsts.set(job, until);
  const changed = new Map<string, number>();
  for (const { ids, from } of history.changes) for (const id of ids ?? []) if (!changed.has(id)) changed.set(id, from);
  for (const { jobs, answers, until } of history.adds) {
    if (until === null) continue;
    for (const [i, job] of jobs.entries()) {
      if (job.queue !== queue || job.inMs > 0 || answers?.[i]?.created !== true) continue;
      const end = Math.min(
        firsts.get(job.id) ?? Number.POSITIVE_INFINITY,
        changed.get(job.id) ?? Number.POSITIVE_INFINITY,
      );
      // A claim may be answered to one process before the add that it saw is answered to another.
      if (end <= until) continue;
      changes.push({ at: until, apply: () => void (waiting += 1) }, { at: end, apply: () => void (waiting -= 1) });
    }
  }
  const move = (p: string, by: number) => running.set(p, (running.get(p) ?? 0) + by);
  const ended = new Map<string, number>();
  for (const { p, token, until } of history.settles) if (until !== null) ended.set(`${p} ${token}`, until);
  for (const { p, until, token } of history.claims) {
    if (!workers.has(p)) continue;
    changes.push({ at: until, apply: () => void move(p, 1) });
    changes.push({ at: ended.get(`${p} ${token}`) ?? Number.POSITIVE_INFINITY, apply: () => void move(p, -1) });
  }
  for (const { p, hr, kind } of history.notes) {
    if (!workers.has(p)) continue;
    if (kind === "ready") changes.push({ at: hr, apply: () => void live.add(p) });
    if (kind === "term" || kind === "left") changes.push({ at: hr, apply: () => void live.delete(p) });
  }
  for (const { target, hr, kind } of history.faults) {
    if (kind === "kill" || kind === "term" || kind === "stop") {
      changes.push({ at: hr, apply: () => void live.delete(target) });
    }
    if (kind === "cont") changes.push({ at: hr, apply: () => void (workers.has(target) && live.add(target)) });
  }
  const starts = history.claims.filter((claim) => claim.queue === queue).map(({ until }) => until);
  for (const at of starts) changes.push({ at, apply: () => {} });
  const started = new Set(starts);

  const blocked = blockedBy(history);
  let since: number | undefined;
  let longest = 0;
  for (const { at, apply } of changes.toSorted((a, b) => a.at - b.at)) {
    if (at === Number.POSITIVE_INFINITY) break;
    if (since !== undefined) {
      const waited = at - since - within(blocked, since, at);
      longest = Math.max(longest, waited);
      if (waited > longestMs) {
        found.check(false, () => `${waiting} jobs waited for ${round(waited)} ms beside ${live.size} live workers`);
        since = undefined;
      }
    }
    apply();
    const free = [...live].some((p) => (running.get(p) ?? 0) < workers.get(p)!);
    if (waiting > 0 && free) {
      if (since === undefined || started.has(at)) since = at;
    } else {
      if (since !== undefined) found.n += 1;
      since = undefined;
    }
  }
  const never = firstsMissing(history, queue, firsts, changed);
  found.check(never === 0, () => `${never} jobs were never started`);
  found.note = `longest ${round(longest)} ms`;
  return found.verdict;
}

function firstsMissing(
  history: Digest,
  queue: string,
  firsts: ReadonlyMap<string, number>,
  changed: ReadonlyMap<string, number>,
): number {
  let missing = 0;
  // A claim whose process died before recording it proves nothing: another one must have followed.
  for (const { jobs, answers } of history.adds) {
    for (const [i, { id, queue: own }] of jobs.entries()) {
      if (own === queue && answers?.[i]?.created === true && !firsts.has(id) && !changed.has(id)) missing += 1;
    }
  }
  return missing;
}

/** I13 for a limiter: a job that finds an empty queue starts within a window and a moment. */
export function startsInTime(jobs: readonly JobRecord[], longestMs: number): Verdict {
  const found = new Finding("I13", "single starts");
  let longest = 0;
  for (const { id, createdAt, startedAt } of jobs) {
    const took = startedAt === null ? Number.POSITIVE_INFINITY : startedAt - createdAt;
    longest = Math.max(longest, took);
    found.check(
      took <= longestMs,
      () => `job ${id} started ${round(took)} ms after it was added, ${round(longestMs)} allowed`,
    );
  }
  found.note = `slowest ${round(longest)} ms of ${round(longestMs)}`;
  return found.verdict;
}
