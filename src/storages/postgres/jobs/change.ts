import type { Change } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";

/** What people do to jobs. Answers with those that were changed. */
export async function change(database: Database, wanted: Change): Promise<readonly string[]> {
  const { changed } = await database.once<{ readonly changed: readonly string[] }>("change", [
    JSON.stringify(wantedOf(wanted)),
  ]);
  return changed;
}

function wantedOf(wanted: Change): object {
  const { action, queue } = wanted;
  if ("ids" in wanted) return { action, queue, ids: wanted.ids, states: wanted.states ?? null };
  const { states, type, group, endedForMs } = wanted.where;
  return { action, queue, states, type, grp: group, ended_for: endedForMs, most: wanted.limit };
}
