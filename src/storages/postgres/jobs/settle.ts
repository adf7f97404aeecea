import type { Outcome } from "../../../storage/job-storage.ts";
import type { Database } from "../database.ts";
import { outcomesOf } from "./outcomes.ts";

/** Ends leases, and answers with the jobs whose lease was lost. */
export async function settle(database: Database, outcomes: readonly Outcome[]): Promise<string[]> {
  if (outcomes.length === 0) return [];
  const { text, stale } = outcomesOf(outcomes);
  const answer = await database.call<{ readonly stale: readonly number[] }>("settle", JSON.stringify(text));
  return stale(answer.stale);
}
