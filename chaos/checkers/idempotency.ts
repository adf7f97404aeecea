import type { Digest } from "../history/digest.ts";
import type { Final } from "../history/final.ts";
import { Finding, type Verdict } from "./verdict.ts";

/** I10, idempotency: one job for each key, and every add with that key is answered with it. */
export function idempotency(history: Digest, final: Final): Verdict {
  const found = new Finding("I10", "keys");
  const answers = new Map<string, { ids: Set<string>; created: number }>();
  for (const { jobs, answers: given } of history.adds) {
    for (const [i, { queue, key }] of jobs.entries()) {
      const answer = given?.[i];
      if (key === null || answer === undefined) continue;
      const name = `${queue} ${key}`;
      const all = answers.get(name) ?? { ids: new Set(), created: 0 };
      all.ids.add(answer.id);
      if (answer.created) all.created += 1;
      answers.set(name, all);
    }
  }
  const kept = new Map<string, number>();
  for (const { queue, idempotencyKey } of final.jobs) {
    if (idempotencyKey !== null)
      kept.set(`${queue} ${idempotencyKey}`, (kept.get(`${queue} ${idempotencyKey}`) ?? 0) + 1);
  }
  for (const [name, { ids, created }] of answers) {
    found.check(ids.size === 1, () => `key ${name} was answered with ${ids.size} different jobs`);
    found.check(created <= 1, () => `key ${name} made ${created} jobs`);
    const jobs = kept.get(name) ?? 0;
    found.check(jobs === 1, () => `key ${name} has ${jobs} jobs in the storage`);
  }
  return found.verdict;
}
