import { type Digest, groupBy } from "../history/digest.ts";
import { Finding, type Verdict } from "./verdict.ts";

/**
 * I12, order: jobs of one queue, group and priority that were due at once start in the order in which they were added. Only
 * first starts are compared: what was given back or recovered has another place.
 */
export function order(history: Digest): Verdict {
  const found = new Finding("I12", "starts in order");
  const firsts = new Map<string, { token: number; attempt: number }>();
  for (const { job, token, attempt } of history.claims) {
    const first = firsts.get(job);
    if (first === undefined || token < first.token) firsts.set(job, { token, attempt });
  }
  const retried = new Set(history.changes.flatMap(({ action, ids }) => (action === "retry" ? (ids ?? []) : [])));
  const added = history.adds
    .flatMap(({ from, until, jobs, answers }) =>
      jobs.map((job, i) => ({ ...job, from, until, i, created: answers?.[i]?.created === true })),
    )
    .filter(({ created, inMs, id }) => created && inMs === 0 && !retried.has(id) && firsts.get(id)?.attempt === 1);
  for (const [lane, jobs] of groupBy(added, ({ queue, group, priority }) => `${queue} ${group ?? "-"} ${priority}`)) {
    const inOrder = jobs.toSorted((a, b) => a.from - b.from || a.i - b.i);
    // The one with the latest start among those that were acknowledged before the next was asked for.
    let latest: { readonly token: number; readonly id: string } | undefined;
    const open: { readonly until: number; readonly token: number; readonly id: string }[] = [];
    for (const job of inOrder) {
      for (let i = open.length - 1; i >= 0; i--) {
        const earlier = open[i]!;
        if (earlier.until >= job.from) continue;
        if (latest === undefined || earlier.token > latest.token) latest = earlier;
        open.splice(i, 1);
      }
      const { token } = firsts.get(job.id)!;
      const before = latest;
      found.check(
        before === undefined || before.token < token,
        () =>
          `lane ${lane}: job ${job.id} (token ${token}) started before ${before?.id} (${before?.token}), added earlier`,
      );
      open.push({ until: job.until!, token, id: job.id });
    }
  }
  return found.verdict;
}
