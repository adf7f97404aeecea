import { byTurn } from "../../../storage/turns.ts";
import type { Step } from "../step.ts";

/** A lane where jobs wait. */
export interface ReadyLane {
  readonly id: number;
  readonly priority: number;
  readonly turn: number;
  readonly waiting: number;
}

const PAUSES = "SELECT type FROM sluice_pauses WHERE queue = ?";
// From one type to the next along the index, however many lanes lie between them.
const FIRST_TYPE = "SELECT type FROM sluice_lanes WHERE queue = ? AND waiting > 0 ORDER BY type LIMIT 1";
const NEXT_TYPE = "SELECT type FROM sluice_lanes WHERE queue = ? AND type > ? AND waiting > 0 ORDER BY type LIMIT 1";
const LANES = `SELECT id, priority, turn, waiting FROM sluice_lanes
  WHERE queue = ? AND type = ? AND waiting > 0 ORDER BY priority DESC, turn, id LIMIT ?`;

/** Which types of a queue a claim may take: those it asks for that are not paused. None: the whole queue is paused. */
export class OpenTypes {
  readonly #step: Step;
  readonly #queue: string;
  readonly #types: readonly string[] | null;
  readonly #paused = new Set<string>();
  readonly paused: boolean;

  constructor(step: Step, queue: string, types: readonly string[] | null) {
    this.#step = step;
    this.#queue = queue;
    this.#types = types;
    for (const { type } of step.sql(PAUSES).all(queue) as { type: string }[]) this.#paused.add(type);
    this.paused = this.#paused.has("");
  }

  has(type: string): boolean {
    return !this.#paused.has(`:${type}`) && (this.#types === null || this.#types.includes(type));
  }

  /** Does anything wait? */
  get anyWaits(): boolean {
    for (const type of this.#candidates()) if (this.#lanes(type, 1).length > 0) return true;
    return false;
  }

  /** At least the first `count` lanes in the order of their turns, if there are so many. */
  lanes(count: number): ReadyLane[] {
    const lanes: ReadyLane[] = [];
    let types = 0;
    for (const type of this.#candidates()) {
      lanes.push(...this.#lanes(type, count));
      types += 1;
    }
    return types > 1 ? lanes.toSorted(byTurn) : lanes;
  }

  #lanes(type: string, count: number): ReadyLane[] {
    return this.#step.sql(LANES).all(this.#queue, type, count) as ReadyLane[];
  }

  *#candidates(): Iterable<string> {
    if (this.paused) return;
    if (this.#types !== null) {
      yield* new Set(this.#types.filter((type) => this.has(type)));
      return;
    }
    let row = this.#step.sql(FIRST_TYPE).get(this.#queue) as { type: string } | undefined;
    while (row !== undefined) {
      if (this.has(row.type)) yield row.type;
      row = this.#step.sql(NEXT_TYPE).get(this.#queue, row.type) as { type: string } | undefined;
    }
  }
}
