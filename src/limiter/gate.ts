import type { Clock } from "../core/clock.ts";
import { extendHold, type Hold, holdWait } from "../limits/hold.ts";
import { WakeUps } from "../limits/wake-ups.ts";
import type { Wait } from "../limits/wait.ts";
import { Blocked } from "./blocked.ts";
import type { Part } from "./part.ts";

/** The settings of every gate. */
export interface GateSettings {
  readonly name: string;
  readonly clock: Clock;
  /** Does a start count for its weight (the default), or for one whatever its weight? */
  readonly count?: "weight" | "starts";
}

/**
 * A part whose state is in this process. Checking and charging are synchronous, so nothing comes in between; several
 * gates are all checked and then all charged, and a refusal has nothing to undo.
 */
export abstract class Gate<Token = unknown> implements Part {
  readonly kind = "gate";
  readonly name: string;
  readonly clock: Clock;
  abstract readonly capacity: number;
  declare readonly hint?: string;
  readonly counts: "weight" | "starts";
  /** The lines blocked at this gate, and the wake-ups that they listen to. */
  readonly blocked: Blocked;
  readonly wakeUps: WakeUps;

  constructor({ name, clock, count = "weight" }: GateSettings, blocked = new Blocked(new WakeUps())) {
    this.name = name;
    this.clock = clock;
    this.blocked = blocked;
    this.wakeUps = blocked.wakeUps;
    this.counts = count;
  }

  get state(): object {
    return this;
  }

  /** The time by the clock of this gate, when `clock` (that of the limiters it is combined with) reads `now`. */
  timeAt(clock: Clock, now: number): number {
    return clock === this.clock ? now : this.clock.now();
  }

  /** When does this weight fit? */
  abstract wait(now: number, weight: number): Wait;
  /** Charges a start, whether or not it fits. Where there is `called`, it counts from its call, and until then in any case. */
  abstract take(now: number, weight: number): Token;
  called?(token: Token): void;
  release(_token: Token, _weight: number): void {}
  abstract cancel(token: Token, weight: number): void;
  settle(_token: Token, _used: number): void {}

  /** A start was refused. */
  refused(_now: number): void {}

  protected units(weight: number): number {
    return this.counts === "starts" ? 1 : weight;
  }
}

/** A gate of a limiter class, for the methods of the class beside `tryAcquire` and `acquire`. */
export interface LimiterGate extends Gate {
  /** Nothing starts before it ends. */
  readonly hold: Hold;
  /** A start without a permit, and the end of one. */
  recordStart(): void;
  recordCompletion?(): void;
  /** The called service accepted a call, or refused one for its limit. */
  accepted?(): void;
  rateLimited?(): void;
  /**
   * Resets the state. Starts in flight return nothing afterwards. Sends no wake-up: where
   * several gates are reset together, the first start must find all of them reset.
   */
  reset(): void;
}

/** Nothing may start in the next `ms`. */
export function holdGate({ hold, clock }: LimiterGate, ms: number): void {
  extendHold(hold, clock.now() + ms);
}

/** How long until one more could start. Where that depends on a release: the rest of the hold. */
export function nextAvailableIn(gate: LimiterGate, now: number): number {
  const wait = gate.wait(now, 1);
  return Number.isFinite(wait) ? wait : holdWait(gate.hold, now);
}
