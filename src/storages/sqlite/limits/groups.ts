import type { LimitRule } from "../../../limits/rule.ts";

/*
 * What is said of groups in the tables. A lane: '' without a group, ':' and its name with one. The state of a limit: the
 * same, but '-' for jobs without a group where it is by group: '' is the state of the bare name, which all share.
 */

const NOBODY = "-";

/** As a lane says it. */
export const grpOf = (group: string | null): string => (group === null ? "" : `:${group}`);

/** As the state of a limit says it. */
export function stateGrpOf({ byGroup }: Pick<LimitRule, "byGroup">, group: string | null): string {
  if (!byGroup) return "";
  return group === null ? NOBODY : grpOf(group);
}

export const groupOf = (grp: string): string | null => (grp === "" || grp === NOBODY ? null : grp.slice(1));
