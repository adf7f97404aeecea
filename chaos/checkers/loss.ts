import { ENDED } from "../../src/core/job.ts";
import type { Digest } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { Finding, type Verdict } from "./verdict.ts";

/**
 * I1, no loss: every acknowledged job is there at the end, unless a command removed it, and after a drain all have ended.
 * Jobs that were added together are there all or none; refused jobs are not there.
 */
export function noLoss(history: Digest, final: Final, { drained }: { readonly drained: boolean }): Verdict {
  const found = new Finding("I1", "jobs");
  const states = new Map(final.jobs.map(({ id, state }) => [id, state]));
  const removed = new Set<string>();
  let anything = false;
  for (const { action, ids } of history.changes) {
    if (action !== "remove") continue;
    if (ids === null) anything = true;
    for (const id of ids ?? []) removed.add(id);
  }
  const isGone = (id: string) => !states.has(id) && !removed.has(id) && !anything;

  for (const { p, jobs, answers, failed } of history.adds) {
    for (const { id } of answers ?? []) {
      found.check(!isGone(id), () => `job ${id}, acknowledged to ${p}, is gone`);
    }
    if (answers !== null) continue;
    const there = jobs.filter(({ id }) => states.has(id) || removed.has(id)).length;
    const keyed = jobs.some(({ key }) => key !== null);
    if (failed) found.check(there === 0, () => `${there} jobs of an add that ${p} was refused are there`);
    else if (!keyed && !anything) {
      found.check(
        there === 0 || there === jobs.length,
        () => `${there} of ${jobs.length} jobs that ${p} added together are there`,
      );
    }
  }
  if (!drained) return found.verdict;
  for (const { id, state } of final.jobs) {
    found.check(ENDED.includes(state), () => `job ${id} is still ${state} after the drain`);
  }
  return found.verdict;
}
