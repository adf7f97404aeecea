import type { Clock } from "../core/clock.ts";
import type { Gate } from "./gate.ts";
import type { Member, Tokens, Weights } from "./charging.ts";

/** One waiter in line. Many may wait for long, so nothing is kept here that only a start needs. */
export abstract class Waiter {
  /** The weights it asks for. */
  readonly weights: Weights;
  /** When it came, compared with all others in this process. 0 while it is not in line. */
  order = 0;
  /** The next waiter. There is no link back: with one, enqueueing costs twice as much (garbage collection). */
  next: Waiter | undefined = undefined;

  constructor(weights: Weights) {
    this.weights = weights;
  }

  get inLine(): boolean {
    return this.order > 0;
  }

  /** Its turn has come: `members` were charged and returned `tokens`. Must not throw. */
  abstract start(members: readonly Member[], tokens: Tokens): void;
  /** Its turn will not come. Must not throw. */
  abstract fail(reason: unknown): void;
}

/** What a line is made of. Changes when a composite gets one more limiter. */
export interface Composition {
  readonly members: readonly Member[];
  /** The clock that the line waits by. */
  readonly clock: Clock;
  /** Is any of them timed? Where none is, the clock is not read. */
  readonly timed: boolean;
  /** The members, if all of them are gates: then every decision is synchronous. */
  readonly gates: readonly Member<Gate>[] | undefined;
}
