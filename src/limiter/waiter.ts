import type { Clock } from "../core/clock.ts";
import type { Gate } from "./gate.ts";
import type { Member, Tokens, Weights } from "./taking.ts";

/** Somebody in line. Many may wait for long: nothing is kept here that only a start needs. */
export abstract class Waiter {
  /** How much they ask for. */
  readonly weights: Weights;
  /** When they came, compared with everyone else in this process. 0 while, and as soon as, they are not in line. */
  order = 0;
  /** Whoever comes next. There is no link back: with one, enqueueing costs twice as much (the collector's doing). */
  next: Waiter | undefined = undefined;

  constructor(weights: Weights) {
    this.weights = weights;
  }

  get inLine(): boolean {
    return this.order > 0;
  }

  /** Their turn has come: `tokens` were taken from `members`. Must not throw. */
  abstract start(members: readonly Member[], tokens: Tokens): void;
  /** Their turn will not come. Must not throw. */
  abstract fail(reason: unknown): void;
}

/** What a line is made of. Changes when a composite gets one more limiter. */
export interface Composition {
  readonly members: readonly Member[];
  /** The clock that the line waits by. */
  readonly clock: Clock;
  /** Does any of them ask what time it is? Where none does, the clock is not read. */
  readonly timed: boolean;
  /** The members again, if all of them are gates: then everything can be decided on the spot. */
  readonly gates: readonly Member<Gate>[] | undefined;
}
