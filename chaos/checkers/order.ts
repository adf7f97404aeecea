import { type Digest, groupBy } from "../history/digest.ts";
import { Finding, type Verdict } from "./verdict.ts";

interface First {
  readonly token: number;
  readonly attempt: number;
  /** When it was claimed: it may have started at any time from the one to the other. */
  readonly from: number;
  readonly until: number;
}

/**
 * I12, order: jobs of one queue, group and priority that were due at once start in the order in which they were added. Only
 * first starts are compared: what was given back or recovered has another place. `sideBySide`: claims of one queue may run at
 * the same time, and their tokens do not show which was first; then one is before another if it had ended when that began.
 */
export function order(history: Digest, { sideBySide }: { readonly sideBySide: boolean }): Verdict {
  const found = new Finding("I12", "starts in order");
  const firsts = new Map<string, First>();
  for (const { job, token, attempt, from, until } of history.claims) {
    const first = firsts.get(job);
    if (first === undefined || token < first.token) firsts.set(job, { token, attempt, from, until });
  }
  const isBefore = (a: First, b: First) => (sideBySide ? a.until < b.from : a.token < b.token);
  const latestOf = (a: First, b: First) => (sideBySide ? a.from > b.from : a.token > b.token);
  const retried = new Set(history.changes.flatMap(({ action, ids }) => (action === "retry" ? (ids ?? []) : [])));
  const added = history.adds
    .flatMap(({ from, until, jobs, answers }) =>
      jobs.map((job, i) => ({ ...job, from, until, i, created: answers?.[i]?.created === true })),
    )
    .filter(({ created, inMs, id }) => created && inMs === 0 && !retried.has(id) && firsts.get(id)?.attempt === 1);
  for (const [lane, jobs] of groupBy(added, ({ queue, group, priority }) => `${queue} ${group ?? "-"} ${priority}`)) {
    const inOrder = jobs.toSorted((a, b) => a.from - b.from || a.i - b.i);
    // The one with the latest start among those that were acknowledged before the next was asked for.
    let latest: { readonly first: First; readonly id: string } | undefined;
    const open: { readonly until: number; readonly first: First; readonly id: string }[] = [];
    for (const job of inOrder) {
      for (let i = open.length - 1; i >= 0; i--) {
        const earlier = open[i]!;
        if (earlier.until >= job.from) continue;
        if (latest === undefined || latestOf(earlier.first, latest.first)) latest = earlier;
        open.splice(i, 1);
      }
      const first = firsts.get(job.id)!;
      const before = latest;
      found.check(before === undefined || !isBefore(first, before.first), () => {
        const [own, other] = [first.token, before?.first.token];
        return `lane ${lane}: job ${job.id} (token ${own}) started before ${before?.id} (${other}), added earlier`;
      });
      open.push({ until: job.until!, first, id: job.id });
    }
  }
  return found.verdict;
}
