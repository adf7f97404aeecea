/** Jobs of one queue, type, priority and group that are due: they start in order, and lanes of a priority take turns. */
export interface Lane {
  readonly priority: number;
  /** When it was last served, as a number that grows with every turn; 0: never. */
  readonly turn: number;
  /** How many jobs wait in it. */
  readonly waiting: number;
}

/** Who is served first: the higher priority, then who was served the longest ago, then who has been there the longest. */
export function byTurn(a: Lane & { readonly id: number }, b: Lane & { readonly id: number }): number {
  return b.priority - a.priority || a.turn - b.turn || a.id - b.id;
}

/**
 * Who gives how many of the `want` next jobs. `lanes` come in the order of `byTurn`, and at least `want` of them where
 * there are so many. Within a priority every lane gives one, then every lane another one, and so on; a lower priority gives
 * only when the higher ones have nothing left. The answers are in the order in which the lanes had their last turn.
 */
export function takeTurns<L extends Lane>(lanes: readonly L[], want: number): { lane: L; take: number }[] {
  const taken: { lane: L; take: number }[] = [];
  let left = want;
  for (let from = 0; from < lanes.length && left > 0;) {
    let to = from + 1;
    while (to < lanes.length && lanes[to]!.priority === lanes[from]!.priority) to += 1;
    const level = shareOut(lanes.slice(from, to), left);
    for (const { take } of level) left -= take;
    taken.push(...level);
    from = to;
  }
  return taken;
}

/** Rounds over lanes of one priority until `want` are found or none is left. */
function shareOut<L extends Lane>(lanes: readonly L[], want: number): { lane: L; take: number }[] {
  const shares = lanes.map((lane) => ({ lane, take: 0, round: 0 }));
  let left = want;
  let open = shares.filter(({ lane }) => lane.waiting > 0);
  let round = 0;
  while (left > 0 && open.length > 0) {
    round += 1;
    // Whole rounds at once: as many as the shortest lane has, or as are wanted of each.
    const rounds = Math.min(Math.floor(left / open.length), ...open.map(({ lane, take }) => lane.waiting - take));
    const whole = Math.max(1, rounds);
    for (const share of open) {
      if (left === 0) break;
      const give = Math.min(whole, left);
      share.take += give;
      share.round = round;
      left -= give;
    }
    open = open.filter(({ lane, take }) => take < lane.waiting);
  }
  // Whoever took part in the last round was served last.
  const order = new Map(shares.map((share, i) => [share, i]));
  return shares
    .filter(({ take }) => take > 0)
    .toSorted((a, b) => a.round - b.round || order.get(a)! - order.get(b)!)
    .map(({ lane, take }) => ({ lane, take }));
}
