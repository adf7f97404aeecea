import type { Clock } from "../core/clock.ts";
import type { Gate } from "./gate.ts";
import type { AnyPart, Member, Tokens, Weights } from "./charging.ts";

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
export type Composition = GateComposition | ComposedOf<AnyPart, false>;
/** All parts are gates, so every decision is synchronous. */
export type GateComposition = ComposedOf<Gate, true>;

interface ComposedOf<P extends AnyPart, Local extends boolean> {
  readonly members: readonly Member<P>[];
  /** The clock that the line waits by. */
  readonly clock: Clock;
  /** Is any of them timed? Where none is, the clock is not read. */
  readonly timed: boolean;
  /** Are all parts gates? */
  readonly local: Local;
}
