import type { Clock } from "../core/clock.ts";
import type { Gate } from "./gate.ts";
import type { Member, Ticket, Weights } from "./ticket.ts";

/** Somebody in line. Many may wait for long: nothing is kept here that only a start needs. */
export abstract class Waiter {
  /** How much they ask for. */
  readonly weights: Weights;
  /** When they came, compared with everyone else in this process. */
  order = 0;
  next: Waiter | undefined = undefined;
  previous: Waiter | undefined = undefined;

  constructor(weights: Weights) {
    this.weights = weights;
  }

  /** What they will hold. */
  abstract ticket(): Ticket;
  /** Their turn has come, and `ticket` holds everything. Must not throw. */
  abstract start(ticket: Ticket): void;
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
