import type { LimitRule } from "../../../limits/rule.ts";
import type { ClaimLimit, ClaimRequest } from "../../../storage/job-storage.ts";
import { ruleOfClaim } from "../../../storage/stored-rules.ts";
import type { Step } from "../step.ts";

/** So often they are written again, as long as there are claims. */
const KEEP_AGAIN_MS = 86_400_000;

const READ = "SELECT limits, at FROM sluice_claims WHERE queue = ?";
const WRITE = `INSERT INTO sluice_claims (queue, limits, at) VALUES (?, ?, ?)
  ON CONFLICT (queue) DO UPDATE SET limits = excluded.limits, at = excluded.at`;

interface Row {
  readonly limits: string;
  readonly at: number;
}

/** Were the limits that claims of the queue bring along written long ago, or never? */
export function isBroughtLongAgo(step: Step, queue: string): boolean {
  const row = step.sql(READ).get(queue) as Row | undefined;
  return row === undefined || step.now - row.at > KEEP_AGAIN_MS;
}

/** Keeps what the claim brings along, so that explanations can name what jobs of its queue wait for. */
export function keepBrought(step: Step, { queue, limits }: ClaimRequest): void {
  if (limits.length === 0 && !step.settings.claims.has(queue)) return;
  const row = step.sql(READ).get(queue) as Row | undefined;
  const text = JSON.stringify(limits);
  if (row?.limits === text && (limits.length === 0 || step.now - row.at <= KEEP_AGAIN_MS)) return;
  step.sql(WRITE).run(queue, text, step.now);
}

/** What the latest claim of a queue brought along, as rules. */
export function broughtBy(step: Step, queue: string): readonly LimitRule[] {
  const row = step.sql(READ).get(queue) as Row | undefined;
  if (row === undefined) return [];
  try {
    return (JSON.parse(row.limits) as ClaimLimit[]).map(ruleOfClaim);
  } catch {
    return [];
  }
}
