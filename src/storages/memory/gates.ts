import type { Gate, Lane, Line } from "./lanes.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";

/** So many gates open at once. Where more do at the same time, no claim has to wait for all of them. */
const STEP = 1_000;

/** The gates of all limit keys that lanes wait for, whatever their queue and type. */
export class Gates {
  readonly #gates = new Map<MemoryLimitState, Set<Gate>>();

  /** Does a lane wait for this key? */
  has(key: MemoryLimitState): boolean {
    return this.#of(key).length > 0;
  }

  /**
   * The key refuses the lane until then: the lane stands at its gate, which is closed. `front`: only the weight of its first job
   * does not fit, so it stands apart from the others.
   */
  block(lane: Lane, key: MemoryLimitState, until: number, front: boolean): void {
    const gate = lane.line.move(lane, key, front);
    gate.close(until);
    const gates = this.#gates.get(key);
    if (gates === undefined) this.#gates.set(key, new Set([gate]));
    else gates.add(gate);
  }

  /** Something of the key was given back: its gates are open. Answers which were closed. */
  openAll(key: MemoryLimitState): readonly Gate[] {
    const closed = this.#of(key).filter(({ isOpen }) => !isOpen);
    for (const gate of closed) gate.open();
    return closed;
  }

  /** The gates of the line whose time has come are open: a good many of them at a time, those first that waited longest. */
  openDue({ closed }: Line, time: number): void {
    for (let done = 0; done < STEP; done++) {
      const gate = closed.first;
      if (gate === undefined || gate.until > time) return;
      gate.open();
    }
  }

  /** The rule of the key is another one: its lanes may be under it no more, and go home. */
  clear(key: MemoryLimitState): void {
    for (const gate of this.#of(key)) {
      for (const lane of Array.from(gate.lanes)) gate.line.move(lane, undefined, false);
    }
    this.#gates.delete(key);
  }

  /** Those where lanes stand. The others are forgotten. */
  #of(key: MemoryLimitState): readonly Gate[] {
    const gates = this.#gates.get(key);
    if (gates === undefined) return NONE;
    for (const gate of gates) if (gate.lanes.size === 0) gates.delete(gate);
    if (gates.size === 0) this.#gates.delete(key);
    return [...gates];
  }
}

const NONE: readonly Gate[] = [];
