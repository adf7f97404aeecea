import { type Digest, groupBy } from "../history/digest.ts";
import { Finding, type Verdict } from "./verdict.ts";

/**
 * I7, concurrency: a worker never runs more handlers at once than it may. Handlers that went on after their signal was
 * aborted do not count, and are listed: they cannot be stopped.
 */
export function concurrency(history: Digest, limits: ReadonlyMap<string, number>): Verdict {
  const found = new Finding("I7", "runs");
  const aborted = new Map(history.aborts.map(({ p, token, hr }) => [`${p} ${token}`, hr]));
  let deaf = 0;
  for (const [p, runs] of groupBy(history.runs, (run) => run.p)) {
    const most = limits.get(p);
    if (most === undefined) continue;
    const changes = runs.flatMap(({ from, until, token }) => {
      const cut = aborted.get(`${p} ${token}`);
      const end = Math.min(until ?? Number.POSITIVE_INFINITY, cut ?? Number.POSITIVE_INFINITY);
      if (cut !== undefined && (until === null || until > cut + 1)) deaf += 1;
      return [
        { at: from, by: 1 },
        { at: end, by: -1 },
      ];
    });
    let now = 0;
    for (const { by } of changes.toSorted((a, b) => a.at - b.at || a.by - b.by)) {
      now += by;
      if (by > 0) found.check(now <= most, () => `${p} ran ${now} handlers at once, ${most} allowed`);
    }
  }
  if (deaf > 0) found.note = `${deaf} handlers ran on after their signal`;
  return found.verdict;
}
