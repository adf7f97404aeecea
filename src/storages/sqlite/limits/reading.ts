import type { LimitRule } from "../../../limits/rule.ts";
import { limitStateOf, type Waiting } from "../../../storage/inspected-key.ts";
import type { LimitQuery, LimitState } from "../../../storage/limit-storage.ts";
import { type Origin, originOf } from "../../../storage/stored-rules.ts";
import type { Step } from "../step.ts";
import { groupOf, stateGrpOf } from "./groups.ts";
import { SqliteKeys } from "./keys.ts";

/** So many groups are shown. */
const SHOWN = 100;

// Through all lanes: for inspection, not on the path of a job.
const WAITING =
  "SELECT queue, type, total(waiting) AS waiting FROM sluice_lanes WHERE waiting > 0 GROUP BY queue, type";
const COUNT = "SELECT count(*) AS n FROM sluice_limits WHERE name = ? AND (grp <> '') = ?";
const LATEST = `SELECT grp FROM sluice_limits WHERE name = ? AND grp <> '' ORDER BY latest_at DESC LIMIT ${SHOWN}`;
const WITHOUT = "SELECT grp FROM sluice_limits WHERE name = ? AND grp = ?";

export function readLimits(step: Step, { name, group }: LimitQuery): LimitState[] {
  const waiting = allWaiting(step);
  const asked = name === null ? [...step.rules.stored.keys()] : [name];
  return asked.toSorted().flatMap((one) => {
    const stored = step.rules.stored.get(one);
    const rule = step.rules.byName.get(one);
    return stored === undefined || rule === undefined ? [] : [stateOf(step, rule, originOf(stored), group, waiting)];
  });
}

/** What waits in all queues. */
export function allWaiting(step: Step): readonly Waiting[] {
  return step.sql(WAITING).all() as Waiting[];
}

/** A limit as it is. */
export function stateOf(
  step: Step,
  rule: LimitRule,
  origin: Origin,
  group: string | null,
  waiting: readonly Waiting[],
): LimitState {
  const keys = new SqliteKeys(step);
  const { n: groups } = step.sql(COUNT).get(rule.name, rule.byGroup ? 1 : 0) as { readonly n: number };
  const shown = groupsOf(step, rule, group).map((one) => keys.key(rule, one));
  return limitStateOf(rule, origin, waiting, groups, shown, step.skew);
}

function groupsOf(step: Step, rule: LimitRule, group: string | null): readonly (string | null)[] {
  if (!rule.byGroup) return [null];
  if (group !== null) return [group];
  const without = step.sql(WITHOUT).all(rule.name, stateGrpOf(rule, null)) as { readonly grp: string }[];
  const latest = step.sql(LATEST).all(rule.name) as { readonly grp: string }[];
  const groups = new Set([...without, ...latest].map(({ grp }) => groupOf(grp)));
  return [...groups].slice(0, SHOWN);
}
