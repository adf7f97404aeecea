import { type Digest, groupBy } from "../history/digest.ts";
import { Finding, round, type Verdict } from "./verdict.ts";

/** Two readings of the storage's clock may lie so far apart in two processes. */
const SLACK_MS = 5;

/**
 * A call that took so long may have been sent twice, the first time with success. The second time a job that was given back and
 * claimed again is stale.
 */
const REPEATED_MS = 3_000;

/**
 * I4, exclusive leases: no worker gets a job while the lease of another worker on it lasts. A lease lasts for its time from the
 * claim or the last heartbeat, or until its holder returns the job. No two workers have the same id, even if they were started in the same way.
 */
export function exclusiveLeases(history: Digest): Verdict {
  const found = new Finding("I4", "leases");
  const ids = new Set<string>();
  for (const { kind, text, value, p } of history.notes) {
    if (kind !== "ready" || value === 0) continue;
    found.check(!ids.has(text), () => `${p} has the id of another worker, ${text}`);
    ids.add(text);
  }
  const settles = groupBy(history.settles, ({ job, token }) => `${job} ${token}`);
  const heartbeats = groupBy(history.heartbeats, ({ job, token }) => `${job} ${token}`);
  for (const [job, claims] of groupBy(history.claims, (claim) => claim.job)) {
    const inOrder = claims.toSorted((a, b) => a.token - b.token);
    for (const [i, claim] of inOrder.entries()) {
      const next = inOrder[i + 1];
      if (next === undefined) {
        found.n += 1;
        continue;
      }
      const key = `${job} ${claim.token}`;
      const given = (settles.get(key) ?? []).some(
        ({ verdict, from, until }) =>
          from <= next.until && (verdict !== "stale" || (until ?? from) - from >= REPEATED_MS),
      );
      const signs = (heartbeats.get(key) ?? []).filter(({ kept, from }) => kept && from < next.from);
      const alive = signs.reduce((latest, { from }) => Math.max(latest, from), claim.from);
      const left = alive + claim.leaseMs - next.until;
      found.check(
        given || left <= SLACK_MS,
        () => `${next.p} got job ${job} (token ${next.token}) ${round(left)} ms before the lease of ${claim.p} ran out`,
      );
      const overlap = claim.leaseUntil - next.grantMs;
      found.check(
        given || overlap <= 0,
        () => `the leases of ${claim.p} and ${next.p} on job ${job} overlap by ${round(overlap)} ms`,
      );
    }
  }
  return found.verdict;
}
