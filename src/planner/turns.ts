import type { JobKeys } from "../core/job.ts";

/**
 * Jobs that wait and have queue, type, priority, group and keys in common. They start in order.
 *
 * Lanes are kept by type, so that a claim finds those it may take and never sees the others. Turns are taken by units.
 */
export interface Lane {
  readonly id: number;
  readonly priority: number;
  readonly group: string | null;
  readonly keys?: JobKeys | undefined;
  /** When a claim for its type last served its unit: a number that grows with every turn; 0: never. */
  readonly turn: number;
  /** How many jobs wait in it. */
  readonly waiting: number;
}

/**
 * What takes turns: the lanes of one priority and group, of all types that a claim may take. Within a unit jobs start in
 * order, whatever their type.
 */
export interface Unit<L> {
  readonly priority: number;
  /** The turn of its lane with waiting jobs that was served the longest ago. */
  readonly turn: number;
  /** The id of that lane. */
  readonly id: number;
  readonly waiting: number;
  readonly lanes: readonly L[];
}

type Ranked = Pick<Lane, "priority" | "turn" | "id">;

/** The order of service: the higher priority, then the lane served the longest ago, then the oldest lane. */
export function byTurn(a: Ranked, b: Ranked): number {
  return b.priority - a.priority || a.turn - b.turn || a.id - b.id;
}

/**
 * The units that these lanes make up, in the order of their turns. Jobs wait in each of the lanes.
 *
 * A claim for all of the types turns all lanes of a unit together. They differ only where workers for different types share
 * a queue; then the lane that was served the longest ago ranks its unit. So the first `n` lanes of each type contain
 * the first `n` units: a lane before that lane in the list of its type belongs to a unit before its unit.
 */
export function unitsOf<L extends Lane>(lanes: readonly L[]): Unit<L>[] {
  const groups = new Map<number, Map<string | null, { lanes: L[]; waiting: number }>>();
  const units: { lanes: L[]; waiting: number }[] = [];
  // The first lane of each unit ranks it.
  for (const lane of lanes.toSorted(byTurn)) {
    let ofPriority = groups.get(lane.priority);
    if (ofPriority === undefined) groups.set(lane.priority, (ofPriority = new Map()));
    let unit = ofPriority.get(lane.group);
    if (unit === undefined) {
      ofPriority.set(lane.group, (unit = { lanes: [], waiting: 0 }));
      units.push(unit);
    }
    unit.lanes.push(lane);
    unit.waiting += lane.waiting;
  }
  return units.map(({ lanes: own, waiting }) => {
    const { id, priority, turn } = own[0]!;
    return { id, priority, turn, waiting, lanes: own };
  });
}

/**
 * How many of the `want` next jobs each unit starts. `units` are in the order of `byTurn`, at least `want` of them where
 * there are so many. Within a priority every unit starts one, then every unit another one, and so on; a lower priority starts
 * jobs only when the higher ones have none left. The result is in the order in which the units had their last turn.
 */
export function takeTurns<U extends Pick<Unit<unknown>, "priority" | "turn" | "waiting">>(
  units: readonly U[],
  want: number,
): { unit: U; take: number }[] {
  const taken: { unit: U; take: number }[] = [];
  let left = want;
  for (let from = 0; from < units.length && left > 0;) {
    let to = from + 1;
    while (to < units.length && units[to]!.priority === units[from]!.priority) to += 1;
    const level = shareOut(units.slice(from, to), left);
    for (const { take } of level) left -= take;
    for (const share of level) taken.push(share);
    from = to;
  }
  return taken;
}

/** Rounds over units of one priority until `want` are found or none is left. */
function shareOut<U extends { readonly waiting: number }>(
  units: readonly U[],
  want: number,
): { unit: U; take: number }[] {
  const shares = units.map((unit) => ({ unit, take: 0, round: 0 }));
  let left = want;
  let open = shares.filter(({ unit }) => unit.waiting > 0);
  let round = 0;
  while (left > 0 && open.length > 0) {
    round += 1;
    // Whole rounds at once: as many as the shortest unit has jobs, or as are wanted of each.
    let rounds = Math.floor(left / open.length);
    for (const { unit, take } of open) rounds = Math.min(rounds, unit.waiting - take);
    const whole = Math.max(1, rounds);
    for (const share of open) {
      if (left === 0) break;
      const give = Math.min(whole, left);
      share.take += give;
      share.round = round;
      left -= give;
    }
    open = open.filter(({ unit, take }) => take < unit.waiting);
  }
  // Units of the last round were served last.
  const order = new Map(shares.map((share, i) => [share, i]));
  return shares
    .filter(({ take }) => take > 0)
    .toSorted((a, b) => a.round - b.round || order.get(a)! - order.get(b)!)
    .map(({ unit, take }) => ({ unit, take }));
}
