import type { Statements } from "./driver.ts";

const DUE = "UPDATE sluice_jobs SET due_at = due_wall + ? WHERE due_wall IS NOT NULL";
const DEADLINES = `UPDATE sluice_jobs SET deadline = deadline_wall + ?
  WHERE deadline_wall IS NOT NULL AND finished_at IS NULL`;

/**
 * Instants that users gave are wall time. They are kept by the clock of the storage beside it, so that one comparison decides; when
 * the skew between the two clocks changes, they move with the wall clock. Answers whether there were any.
 */
export function moveInstants(statements: Statements, skew: number): boolean {
  const due = statements.get(DUE).run(skew).changes;
  const deadlines = statements.get(DEADLINES).run(skew).changes;
  return Number(due) + Number(deadlines) > 0;
}
