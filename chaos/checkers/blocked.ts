import type { Digest } from "../history/digest.ts";

/** From when to when, on the clock that all processes share. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** While the database can be written to, a write ends more often than this. */
const QUIET_MS = 100;

/**
 * When a stopped process held the lock of the database. No process can write then, and no storage in a file
 * can prevent that: such times are left out of bounds on time. They are recognised by two signs: a process is
 * stopped, and no write ends.
 */
export function blockedBy(history: Digest): Span[] {
  const writes = [
    ...history.adds.flatMap(({ until }) => until ?? []),
    ...history.settles.flatMap(({ until }) => until ?? []),
    ...history.claims.map(({ until }) => until),
    ...history.heartbeats.map(({ until }) => until),
    ...history.sweeps.map(({ hr }) => hr),
  ].toSorted((a, b) => a - b);
  return stopsOf(history).flatMap((stop) => {
    const inside = writes.filter((at) => at > stop.from && at < stop.to);
    const edges = [stop.from, ...inside, stop.to];
    return edges.slice(1).flatMap((to, i) => (to - edges[i]! > QUIET_MS ? [{ from: edges[i]!, to }] : []));
  });
}

/** How much of the time between two instants lies in these spans. */
export function within(spans: readonly Span[], from: number, to: number): number {
  return spans.reduce((sum, span) => sum + Math.max(0, Math.min(to, span.to) - Math.max(from, span.from)), 0);
}

/** From when to when some process was stopped, in order and without overlaps. */
function stopsOf(history: Digest): Span[] {
  const stopped = new Set<string>();
  const stops: Span[] = [];
  let since = 0;
  for (const { kind, target, hr } of history.faults) {
    const before = stopped.size;
    if (kind === "stop") stopped.add(target);
    else if (kind === "cont" || kind === "kill") stopped.delete(target);
    if (before === 0 && stopped.size > 0) since = hr;
    if (before > 0 && stopped.size === 0) stops.push({ from: since, to: hr });
  }
  return stops;
}
