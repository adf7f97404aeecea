import type { Statements } from "./driver.ts";

// Clocks are set seldom, so these go through all jobs that may have such an instant: an index of those that have is a condition more to be
// looked at for every job that is added, started and ended.
const DUE = "UPDATE sluice_jobs SET due_at = due_wall + ? WHERE state = 'scheduled' AND due_wall IS NOT NULL";
const DEADLINES = `UPDATE sluice_jobs SET deadline = deadline_wall + ?
  WHERE deadline IS NOT NULL AND finished_at IS NULL AND lease_until IS NULL AND deadline_wall IS NOT NULL`;
const ACTIVE_DEADLINES =
  "UPDATE sluice_jobs SET deadline = deadline_wall + ? WHERE lease_until IS NOT NULL AND deadline_wall IS NOT NULL";

/**
 * Instants that users gave are wall time. They are kept by the clock of the storage beside it, so that one comparison decides; when
 * the skew between the two clocks changes, they move with the wall clock. Answers whether there were any.
 */
export function moveInstants(statements: Statements, skew: number): boolean {
  let moved = 0;
  for (const sql of [DUE, DEADLINES, ACTIVE_DEADLINES]) moved += Number(statements.get(sql).run(skew).changes);
  return moved > 0;
}
