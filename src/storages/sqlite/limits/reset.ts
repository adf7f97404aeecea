import type { LimitRow } from "../limit-row.ts";
import type { Step } from "../step.ts";

const FORGET = "DELETE FROM sluice_starts WHERE limit_id = ?";
const DROP = "DELETE FROM sluice_limits WHERE id = ?";
const HELD = "SELECT 1 FROM sluice_holds WHERE limit_id = ? LIMIT 1";
const ANEW = "INSERT INTO sluice_limits (name, grp, longest, prune_at) VALUES (?, ?, ?, ?) RETURNING id";
const MOVE = "UPDATE sluice_holds SET limit_id = ? WHERE limit_id = ?";
const LET_GO = "DELETE FROM sluice_holds WHERE limit_id = ?";

/** Forgets what was counted. What is held stays held, under another id: whatever names the old one names nothing then. */
export function resetLimit(step: Step, { id, name, grp, longest }: LimitRow): void {
  step.sql(FORGET).run(id);
  step.sql(DROP).run(id);
  if (step.sql(HELD).get(id) === undefined) return;
  const anew = step.sql(ANEW).get(name, grp, longest, step.now + longest) as { readonly id: number };
  step.sql(MOVE).run(anew.id, id);
}

/** Forgets everything, what is held as well. */
export function dropLimit(step: Step, id: number): void {
  step.sql(FORGET).run(id);
  step.sql(LET_GO).run(id);
  step.sql(DROP).run(id);
}
