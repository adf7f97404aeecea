import type { Change } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";

interface Answer {
  readonly changed: readonly string[];
  readonly missed: number;
}

/** What people do to jobs. Answers with those that were changed. */
export async function change(database: Database, wanted: Change): Promise<readonly string[]> {
  if ("ids" in wanted) {
    const { action, queue, ids, states = null } = wanted;
    return (await database.once<Answer>("change", [JSON.stringify({ action, queue, ids, states })])).changed;
  }
  const { action, queue, limit } = wanted;
  const { states, type, group, endedForMs } = wanted.where;
  const which = { action, queue, states, type, grp: group, ended_for: endedForMs };
  return database.together(async (steps) => {
    const all: string[] = [];
    // Jobs that were claimed before they could be held leave room for others: fewer than asked for means that there are no more.
    for (let missed = 1; missed > 0 && all.length < limit;) {
      const most = limit - all.length;
      const answer = await steps.once<Answer>("change", [JSON.stringify({ ...which, most })]);
      all.push(...answer.changed);
      missed = answer.missed;
    }
    return all;
  });
}
