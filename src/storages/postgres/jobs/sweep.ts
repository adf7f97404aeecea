import type { Sweep } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";

/** One small step of housekeeping. */
export async function sweep(database: Database): Promise<Sweep> {
  const { stalled, deleted, more } = await database.call<Sweep>("sweep");
  return { stalled, deleted, more };
}
