import type { Step } from "../step.ts";

/*
 * Turns are had by the lanes of a queue, priority and group, whatever their type and keys. Lanes that differ only in their keys
 * may be many: a start writes its turn to one of them, and the latest of theirs holds for all.
 */

/** What has its turn: all lanes of a type in a unit. */
export interface OfTurn {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly grp: string;
}

/** A lane that carries a turn. */
export interface Carrier {
  readonly id: number;
  readonly own: number;
  readonly turn: number;
  readonly served: number;
}

const GROUPED = "SELECT 1 FROM sluice_lanes WHERE queue = ? AND priority = ? AND grp > '' LIMIT 1";
const UNIT = "queue = ? AND priority = ? AND grp = ?";
const PLAIN = `SELECT id, own, turn, served FROM sluice_lanes WHERE ${UNIT} AND keys = '' AND type = ?`;
const LATEST = `SELECT id, own, turn, served FROM sluice_lanes WHERE ${UNIT} AND keys <> '' AND type = ? ORDER BY turn DESC LIMIT 2`;
const PLAIN_TYPES = `SELECT type FROM sluice_lanes WHERE ${UNIT} AND keys = ''`;
const NEXT_TYPE = `SELECT type FROM sluice_lanes WHERE ${UNIT} AND keys <> '' AND type > ? ORDER BY type LIMIT 1`;

/** Are there lanes with groups in this priority? */
export function hasGroups(step: Step, queue: string, priority: number): boolean {
  return step.sql(GROUPED).get(queue, priority) !== undefined;
}

/** The lanes that may carry the turn, the latest first. More than one: there are lanes that differ only in their keys. */
export function carriersOf(step: Step, { queue, type, priority, grp }: OfTurn): readonly Carrier[] {
  const found = [
    ...step.sql(PLAIN).all(queue, priority, grp, type),
    ...step.sql(LATEST).all(queue, priority, grp, type),
  ] as Carrier[];
  return found.length > 1 ? found.toSorted((a, b) => b.turn - a.turn) : found;
}

/** The types of the unit. */
export function typesOf(step: Step, { queue, priority, grp }: Omit<OfTurn, "type">): ReadonlySet<string> {
  const plain = step.sql(PLAIN_TYPES).all(queue, priority, grp) as { readonly type: string }[];
  return new Set([...plain.map(({ type }) => type), ...step.names(NEXT_TYPE, queue, priority, grp)]);
}

/** Where a new lane stands: beside those that differ only in their keys, else where its unit does. */
export function turnOfNew(step: Step, lane: OfTurn): { readonly own: number | null; readonly turn: number } {
  const [carrier] = carriersOf(step, lane);
  if (carrier !== undefined) return carrier;
  let turn = 0;
  for (const type of typesOf(step, lane)) turn = Math.max(turn, carriersOf(step, { ...lane, type })[0]?.turn ?? 0);
  return { own: null, turn };
}
