import type { JobUpdate, Updated, When } from "../../../storage/job-storage.ts";
import { textOfKeys } from "../../../storage/kept.ts";
import type { Database } from "../database.ts";
import { type Refused, throwRefused } from "./add.ts";

/** Changes what was said of a job that has not started. */
export async function update(database: Database, { queue, id, set }: JobUpdate): Promise<Updated> {
  const { refused, updated, state } = await database.once<Updated & { readonly refused?: Refused }>("update_job", [
    JSON.stringify({ queue, id, ...columnsOf(set) }),
  ]);
  throwRefused(refused);
  return { updated, state };
}

/** What is to be different, as the columns have it. `sets`: which of them. */
function columnsOf(set: JobUpdate["set"]): object {
  const { group, keys, maxAttempts, backoff, timeout, keepFor, due, deadline, ...same } = set;
  const columns = {
    ...same,
    ...(group !== undefined && { grp: group }),
    ...(keys !== undefined && { keys: keys === null ? null : textOfKeys(keys) }),
    ...(maxAttempts !== undefined && { max_attempts: maxAttempts }),
    ...(backoff !== undefined && { backoff: JSON.stringify(backoff) }),
    ...(timeout !== undefined && { timeout }),
    ...(keepFor !== undefined && { keep_for: keepFor }),
    ...(due !== undefined && whenOf("due", due)),
    ...(deadline !== undefined && whenOf("deadline", deadline)),
  };
  const sets = Object.keys(set);
  return { ...columns, sets };
}

function whenOf(name: string, when: When | null): object {
  if (when === null) return {};
  return "at" in when ? { [name]: when.at } : { [`${name}_in`]: when.inMs };
}
