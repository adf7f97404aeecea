import type { Clock } from "../core/clock.ts";
import type { Gate } from "./gate.ts";
import { type Member, Ticket } from "./ticket.ts";

/** Somebody in line. What they hold once it is their turn is the ticket they are. */
export abstract class Waiter extends Ticket {
  /** When they came, compared with everyone else in this process. */
  order = 0;
  next: Waiter | undefined = undefined;
  previous: Waiter | undefined = undefined;

  /** Their turn has come and everything is taken. Must not throw. */
  abstract start(): void;
  /** Their turn will not come. Must not throw. */
  abstract fail(reason: unknown): void;
}

/** What a line is made of. Changes when a composite gets one more limiter. */
export interface Composition {
  readonly members: readonly Member[];
  /** The clock that the line waits by. */
  readonly clock: Clock;
  /** The members again, if all of them are gates: then everything can be decided on the spot. */
  readonly gates: readonly Member<Gate>[] | undefined;
}
