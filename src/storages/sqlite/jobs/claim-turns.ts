import { grpOf } from "../limits/groups.ts";
import type { Step } from "../step.ts";
import { carriersOf, hasGroups, typesOf } from "./keyed.ts";
import type { ClaimLane, ClaimUnit } from "./ready-lanes.ts";

/** The turn of lanes that differ only in their keys. */
export interface OwnTurn {
  readonly type: string;
  at: number;
  /** There are several of them. */
  readonly many: boolean;
  /** A lane that has the turn, or one of those where it is written if another type has it. */
  readonly carrier: number;
}

/** A unit where lanes have keys. */
export interface KeyedUnit extends ClaimUnit {
  /** One for each type that the claim asks for. */
  readonly turns: readonly OwnTurn[];
}

// As many of those that have the latest turn as it makes sense to look at.
const SERVED = `SELECT coalesce(max(served), 0) AS served FROM (SELECT served FROM sluice_lanes
  WHERE queue = ? AND priority = ? AND grp = ? AND keys <> '' AND type = ? AND turn = ? LIMIT 1000)`;

/** So many lanes are put where they belong in one claim. */
const MOST_MOVES = 1_000;

/** The turns of units in a queue where lanes have keys, as a claim sees them. */
export class ClaimTurns {
  readonly #step: Step;
  readonly #queue: string;
  readonly #asked: readonly string[] | null;
  readonly #shares: boolean;
  readonly #units = new Map<string, KeyedUnit>();
  readonly #grouped = new Map<number, boolean>();
  /** Lanes that have a later turn than is written there. */
  readonly stale = new Set<ClaimLane>();

  constructor(step: Step, queue: string, asked: readonly string[] | null, shares: boolean) {
    this.#step = step;
    this.#queue = queue;
    this.#asked = asked;
    this.#shares = shares;
  }

  unit({ priority, group }: ClaimLane): KeyedUnit {
    const grp = grpOf(group);
    const key = `${priority} ${grp}`;
    let unit = this.#units.get(key);
    if (unit === undefined) this.#units.set(key, (unit = this.#read(priority, grp)));
    return unit;
  }

  of(lane: ClaimLane): OwnTurn {
    return this.unit(lane).turns.find(({ type }) => type === lane.type)!;
  }

  /** Has the lane the turn that holds? Else it has it from now on, unless that was the case with too many. */
  isRight(lane: ClaimLane): boolean {
    const { at } = this.of(lane);
    if (lane.turn === at || this.stale.size >= MOST_MOVES) return true;
    lane.turn = at;
    this.stale.add(lane);
    return false;
  }

  /** Without groups there are no turns: lanes with different keys go on in the order of their jobs. */
  takesTurns(lane: ClaimLane): boolean {
    if (lane.group !== null || !this.of(lane).many) return true;
    let grouped = this.#grouped.get(lane.priority);
    if (grouped === undefined) {
      this.#grouped.set(lane.priority, (grouped = hasGroups(this.#step, this.#queue, lane.priority)));
    }
    return grouped;
  }

  #read(priority: number, grp: string): KeyedUnit {
    const step = this.#step;
    const queue = this.#queue;
    const turns: OwnTurn[] = [];
    let served = 0;
    let latest = -1;
    for (const type of typesOf(step, { queue, priority, grp })) {
      if (this.#asked?.includes(type) === false) continue;
      const carriers = carriersOf(step, { queue, type, priority, grp });
      const [{ id, turn }] = carriers as [(typeof carriers)[number]];
      turns.push({ type, at: turn, many: carriers.length > 1, carrier: id });
      if (!this.#shares || turn < latest) continue;
      const own = step.sql(SERVED).get(queue, priority, grp, type, turn) as { readonly served: number };
      const plain = carriers.filter((one) => one.turn === turn).map((one) => one.served);
      const most = Math.max(own.served, ...plain);
      served = turn > latest ? most : Math.max(served, most);
      latest = turn;
    }
    return { lanes: [], served, turns };
  }
}
