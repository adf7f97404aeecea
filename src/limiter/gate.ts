import type { Clock } from "../core/clock.ts";
import { both } from "../limits/compose.ts";
import { createHold, type Hold, extendHold, holdWait } from "../limits/hold.ts";
import { WakeUps } from "../limits/wake-ups.ts";
import type { Wait } from "../limits/wait.ts";
import { Blocked } from "./blocked.ts";
import type { Part } from "./part.ts";

/** The settings of every gate. */
export interface GateSettings {
  readonly name: string;
  readonly clock: Clock;
  /** Does a start count for its weight, or for one whatever its weight? */
  readonly count: "weight" | "starts";
}

/**
 * A part whose state is in this process. Checking and charging are synchronous, so nothing comes in between; several
 * gates are all checked and then all charged, and a refusal has nothing to undo.
 */
export abstract class Gate<Token = unknown> implements Part {
  readonly kind = "gate";
  readonly name: string;
  readonly clock: Clock;
  /** Does it matter at what instant a start happens? */
  abstract readonly timed: boolean;
  readonly counts: "weight" | "starts";
  /** The lines blocked at this gate, and the wake-ups that they listen to. */
  readonly blocked: Blocked;
  readonly wakeUps: WakeUps;

  constructor({ name, clock, count }: GateSettings, blocked = new Blocked(new WakeUps())) {
    this.name = name;
    this.clock = clock;
    this.blocked = blocked;
    this.wakeUps = blocked.wakeUps;
    this.counts = count;
  }

  abstract get capacity(): number;

  get state(): object {
    return this;
  }

  /** The time by the clock of this gate, when `clock` (that of the limiters it is combined with) reads `now`. */
  timeAt(clock: Clock, now: number): number {
    return clock === this.clock ? now : this.clock.now();
  }

  /** When does this weight fit? */
  wait(now: number, weight: number): Wait {
    return both(this.fits(now, this.units(weight)), holdWait(this.currentHold, now));
  }

  /** Charges a start, whether or not it fits. A timed gate counts it from its call (`called`), and until then in any case. */
  abstract take(now: number, weight: number): Token;
  /** The start that `token` was returned for is called now. */
  called(_token: Token, _now: number): void {}
  release(_token: Token, _weight: number): void {}
  abstract cancel(token: Token, weight: number): void;
  settle(_token: Token, _used: number): void {}

  /** A start without a permit, and the end of one. */
  recordStart(): void {
    this.take(this.clock.now(), 1);
  }
  recordCompletion(): void {}

  /** A start was refused. */
  refused(_now: number): void {}

  /** The called service accepted a call, or refused one for its limit. */
  accepted(): void {}
  rateLimited(): void {}

  /** Nothing may start in the next `ms`. */
  hold(ms: number): void {
    extendHold(this.currentHold, this.clock.now() + ms);
  }

  /** How long until one more could start. Where that depends on a release: the rest of the hold. */
  nextAvailableIn(now: number): number {
    const wait = this.wait(now, 1);
    return Number.isFinite(wait) ? wait : holdWait(this.currentHold, now);
  }

  /**
   * Resets the state. Starts in flight return nothing afterwards. Sends no wake-up: where
   * several gates are reset together, the first start must find all of them reset.
   */
  abstract reset(): void;

  protected abstract get currentHold(): Hold;
  /** When do `units` fit, apart from a hold? */
  protected abstract fits(now: number, units: number): Wait;

  protected units(weight: number): number {
    return this.counts === "starts" ? 1 : weight;
  }
}

/** A gate with a hold of its own, as most have. */
export abstract class HoldableGate<Token> extends Gate<Token> {
  protected currentHold: Hold = createHold();

  reset(): void {
    this.currentHold = createHold();
  }
}
