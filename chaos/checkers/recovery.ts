import type { Digest } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { blockedBy, within } from "./blocked.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

export interface RecoveryBounds {
  readonly leaseMs: number;
  readonly sweepMs: number;
  readonly slackMs: number;
}

/**
 * I8, recovery: the jobs of a killed process are back in the queue within a lease and a sweep, or a sweep after a worker is
 * there to do it. The storage records when it took the job away from its worker; the conductor, when it killed it. Time
 * in which a stopped process holds the lock does not count.
 */
export function recovery(history: Digest, final: Final, { leaseMs, sweepMs, slackMs }: RecoveryBounds): Verdict {
  const found = new Finding("I8", "recovered leases");
  const processes = new Map<string, string>();
  for (const { kind, p, text } of history.notes) if (kind === "ready") processes.set(text, p);
  const killed = new Map<string, number>();
  for (const { kind, target, wall } of history.faults) if (kind === "kill") killed.set(target, wall);
  const lives = livesOf(history);
  const blocked = blockedBy(history);
  const toWall = wallOffset(history);
  let slowest = 0;
  for (const [job, attempts] of final.attempts) {
    for (const { worker, endedAt, error } of attempts) {
      const at = error.code === "SLUICE_STALLED" ? killed.get(processes.get(worker) ?? "") : undefined;
      if (at === undefined) continue;
      const due = firstLive(lives, at + leaseMs, sweepMs);
      const late = endedAt - due - within(blocked, due - toWall, endedAt - toWall);
      slowest = Math.max(slowest, late);
      found.check(
        late <= sweepMs + slackMs,
        () =>
          `job ${job} of a killed worker came back ${round(late)} ms after it could have, ${round(endedAt - at)} after the kill`,
      );
    }
  }
  found.note = `slowest ${round(slowest)} ms after the lease, ${round(sweepMs + slackMs)} allowed`;
  return found.verdict;
}

/** The difference of the shared clock and the wall clock. */
function wallOffset({ faults: [first] }: Digest): number {
  return first === undefined ? 0 : first.wall - first.hr;
}

interface Life {
  readonly from: number;
  to: number;
}

/** From when to when each worker could sweep, by the wall clock. */
function livesOf(history: Digest): Life[] {
  const toWall = wallOffset(history);
  const open = new Map<string, Life>();
  const lives: Life[] = [];
  const begin = (p: string, hr: number) => {
    const life = { from: hr + toWall, to: Number.POSITIVE_INFINITY };
    open.set(p, life);
    lives.push(life);
  };
  const changes = [
    ...history.notes
      .filter(({ kind, value }) => kind === "ready" && value > 0)
      .map(({ p, hr }) => ({ p, hr, on: true })),
    ...history.faults
      .filter(({ kind }) => kind !== "spawn")
      .map(({ target, hr, kind }) => ({ p: target, hr, on: kind === "cont" })),
  ];
  for (const { p, hr, on } of changes.toSorted((a, b) => a.hr - b.hr)) {
    const life = open.get(p);
    if (on && (life === undefined || life.to < Number.POSITIVE_INFINITY)) begin(p, hr);
    else if (!on && life !== undefined) life.to = Math.min(life.to, hr + toWall);
  }
  return lives;
}

/** The first instant from `at` on at which a worker runs that lives for a whole sweep interval. */
function firstLive(lives: readonly Life[], at: number, sweepMs: number): number {
  return lives.reduce((first, { from, to }) => {
    const begin = Math.max(from, at);
    return to - begin > 2 * sweepMs ? Math.min(first, begin) : first;
  }, Number.POSITIVE_INFINITY);
}
