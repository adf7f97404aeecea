import { JOB_STATES } from "../../src/core/job.ts";
import type { Digest } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { Finding, type Verdict } from "./verdict.ts";

/**
 * I14, accounting: every added job is there or was removed; the storage counts as its tables do; no row is
 * left behind that belongs to no job; the file is sound.
 */
export function accounting(history: Digest, final: Final): Verdict {
  const found = new Finding("I14", "counts");
  const added = new Set<string>();
  const perhaps = new Set<string>();
  for (const { jobs, answers, failed } of history.adds) {
    for (const [i, { id }] of jobs.entries()) {
      if (answers?.[i]?.created === true) added.add(id);
      else if (answers === null && !failed) perhaps.add(id);
    }
  }
  const removed = new Set(history.changes.flatMap(({ action, ids }) => (action === "remove" ? (ids ?? []) : [])));
  const unknown = history.changes.some(({ action, ids }) => action === "remove" && ids === null);
  for (const { id } of final.jobs) {
    found.check(added.has(id) || perhaps.has(id), () => `job ${id} is there, and was never added`);
    found.check(!removed.has(id), () => `job ${id} is there, and was removed`);
  }
  const expected = [...added].filter((id) => !removed.has(id)).length;
  const there = final.jobs.filter(({ id }) => added.has(id)).length;
  found.check(unknown || there === expected, () => `${there} jobs are there, ${expected} expected`);
  for (const queue of new Set([...final.counts.keys(), ...final.rows.keys()])) {
    for (const state of JOB_STATES) {
      const reported = final.counts.get(queue)?.[state] ?? 0;
      const counted = final.rows.get(queue)?.[state] ?? 0;
      found.check(reported === counted, () => `${queue}: ${reported} jobs told ${state}, ${counted} counted`);
    }
  }
  found.n += 1;
  found.violations.push(...final.damage);
  return found.verdict;
}
