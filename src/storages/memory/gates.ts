import type { Gate, Lane, Line } from "./lanes.ts";
import type { MemoryLimitState } from "./limits/limit-state.ts";

/** At most so many gates open in one step, so that no claim takes long when many are due at the same time. */
const STEP = 1_000;

/** The gates of all limit keys that lanes wait for, whatever their queue and type. */
export class Gates {
  readonly #gates = new Map<MemoryLimitState, Set<Gate>>();

  /** Does a lane wait for this key? */
  has(key: MemoryLimitState): boolean {
    return this.#of(key).length > 0;
  }

  /**
   * The key refuses the lane until then: the lane moves to its gate, which closes. `front`: only its first job is too heavy, so the
   * lane gets a gate of its own.
   */
  block(lane: Lane, key: MemoryLimitState, until: number, front: boolean): void {
    const gate = lane.line.move(lane, key, front);
    gate.close(until);
    const gates = this.#gates.get(key);
    if (gates === undefined) this.#gates.set(key, new Set([gate]));
    else gates.add(gate);
  }

  /** Something of the key was returned: opens its gates, and answers which were closed. */
  openAll(key: MemoryLimitState): readonly Gate[] {
    const closed = this.#of(key).filter(({ isOpen }) => !isOpen);
    for (const gate of closed) gate.open();
    return closed;
  }

  /** Opens gates of the line that are due, the earliest first. */
  openDue({ closed }: Line, time: number): void {
    for (let done = 0; done < STEP; done++) {
      const gate = closed.first;
      if (gate === undefined || gate.until > time) return;
      gate.open();
    }
  }

  /** The rule of the key was changed and may not apply to its lanes any more: they move to their home gates. */
  clear(key: MemoryLimitState): void {
    for (const gate of this.#of(key)) {
      for (const lane of Array.from(gate.lanes)) gate.line.move(lane, undefined, false);
    }
    this.#gates.delete(key);
  }

  /** The gates of the key that have lanes. The others are deleted. */
  #of(key: MemoryLimitState): readonly Gate[] {
    const gates = this.#gates.get(key);
    if (gates === undefined) return NONE;
    for (const gate of gates) if (gate.lanes.size === 0) gates.delete(gate);
    if (gates.size === 0) this.#gates.delete(key);
    return [...gates];
  }
}

const NONE: readonly Gate[] = [];
