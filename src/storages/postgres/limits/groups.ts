import type { LimitRule } from "../../../limits/rule.ts";

/*
 * What the state of a limit says of its group: ':' and its name; '-' for jobs without a group, where the limit is by group; ''
 * where it is not: that is the state of the bare name, which all share.
 */

const NOBODY = "-";

export function stateGrpOf({ byGroup }: Pick<LimitRule, "byGroup">, group: string | null): string {
  if (!byGroup) return "";
  return group === null ? NOBODY : `:${group}`;
}

export const groupOf = (grp: string): string | null => (grp === "" || grp === NOBODY ? null : grp.slice(1));
