import { byTurn } from "../../../planner/turns.ts";
import type { Head, ReadyLane } from "../../../planner/plan-claim.ts";
import type { JobRow } from "./record.ts";

/** A lane as a claim sees it, with all that the claim has done so far. Nothing of that is written before its end. */
export interface ClaimLane extends ReadyLane {
  turn: number;
  /** How many were started since it was its turn, when it was read. */
  readonly served: number;
  /** How many it counts. */
  waiting: number;
  /** May it be taken from? */
  ready: boolean;
  /** Its turn has come in this claim: it stands among those that were served. */
  moved: boolean;
  /** The lanes that have their turn with it. */
  unit: ClaimUnit | undefined;
  /** Its next jobs, as far as they were read; the first of them that has not started; and whether these are all. */
  rows: JobRow[];
  at: number;
  whole: boolean;
  /** Was it read at all? */
  read: boolean;
  /** Who is next, if that has been looked at. */
  head: Head | undefined;
  /** How many it gave. */
  gave: number;
  /** The job that was too heavy when a claim looked at it; for which limit; and since when it waits. */
  readonly heavy: number | null;
  readonly by: string | null;
  readonly since: number | null;
}

/** The lanes of one priority and group, of the types that the claim asks for. */
export interface ClaimUnit {
  /** All of them, empty, blocked or paused as they may be. */
  readonly lanes: readonly ClaimLane[];
  /** How many were started since it is their turn. */
  served: number;
}

/** Lanes that were read together; and whether there are no more. */
export interface Page {
  readonly lanes: readonly ClaimLane[];
  readonly last: boolean;
}

/** Lanes that were served in this claim, of one priority, in the order of their turns. */
interface Level {
  readonly priority: number;
  readonly lanes: ClaimLane[];
  readonly turns: number[];
  at: number;
}

/**
 * The ready lanes of one type, in the order of their turns. They are read in pages as they are needed. Those that had their
 * turn in this claim stand behind all others of their priority, read or not, so they are kept apart.
 */
export class Line {
  readonly #more: (from: number) => Page;
  readonly #fresh: ClaimLane[] = [];
  readonly #served: Level[] = [];
  #at = 0;
  #whole = false;

  /** `more` reads the next lanes from this place on. */
  constructor(more: (from: number) => Page) {
    this.#more = more;
  }

  /** Lanes that were read and have not had their turn, from the first on. */
  get unserved(): readonly ClaimLane[] {
    return this.#fresh.slice(this.#at);
  }

  get first(): ClaimLane | undefined {
    const fresh = this.#firstFresh();
    const served = this.#firstServed();
    if (fresh === undefined || served === undefined) return fresh ?? served;
    return byTurn(fresh, served) < 0 ? fresh : served;
  }

  /** The lane had its turn. */
  serve(lane: ClaimLane): void {
    lane.moved = true;
    if (!lane.ready) return;
    let level = this.#served.find(({ priority }) => priority === lane.priority);
    if (level === undefined) {
      level = { priority: lane.priority, lanes: [], turns: [], at: 0 };
      this.#served.push(level);
      this.#served.sort((a, b) => b.priority - a.priority);
    }
    level.lanes.push(lane);
    level.turns.push(lane.turn);
  }

  #firstFresh(): ClaimLane | undefined {
    for (;;) {
      for (; this.#at < this.#fresh.length; this.#at++) {
        const lane = this.#fresh[this.#at]!;
        if (lane.ready && !lane.moved) return lane;
      }
      if (this.#whole) return undefined;
      const { lanes, last } = this.#more(this.#fresh.length);
      this.#whole = last;
      this.#fresh.push(...lanes);
    }
  }

  #firstServed(): ClaimLane | undefined {
    for (const level of this.#served) {
      for (; level.at < level.lanes.length; level.at++) {
        const lane = level.lanes[level.at]!;
        if (lane.ready && lane.turn === level.turns[level.at]) return lane;
      }
    }
    return undefined;
  }
}
