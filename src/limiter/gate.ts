import type { Clock } from "../core/clock.ts";
import { both } from "../limits/compose.ts";
import { createPause, type Pause, pauseUntil, pauseWait } from "../limits/pause.ts";
import { WakeUps } from "../limits/wake-ups.ts";
import type { Wait } from "../limits/wait.ts";
import { Blocked } from "./blocked.ts";
import type { Part } from "./part.ts";

/** What every gate is told. */
export interface GateSettings {
  readonly name: string;
  readonly clock: Clock;
  /** Does a start count for its weight, or for one whatever its weight? */
  readonly count: "weight" | "starts";
}

/**
 * A part whose state is in this process. Asking and taking are synchronous, so nothing comes in between; a group of
 * gates is asked, all of them, and then taken, all of them, and a refusal has nothing to undo.
 */
export abstract class Gate<Token = unknown> implements Part {
  readonly kind = "gate";
  readonly name: string;
  readonly clock: Clock;
  /** Does it matter at what instant a start happens? */
  abstract readonly timed: boolean;
  readonly counts: "weight" | "starts";
  /** Who is held up here, and who hears of room. */
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

  get ledger(): object {
    return this;
  }

  /** What its own clock says when another, that of the limiters it is combined with, says `now`. */
  timeAt(clock: Clock, now: number): number {
    return clock === this.clock ? now : this.clock.now();
  }

  /** When does this weight fit? */
  wait(now: number, weight: number): Wait {
    return both(this.fits(now, this.units(weight)), pauseWait(this.pause, now));
  }

  /** Takes, whether or not there is room. What goes by time counts from the call (`called`), and until then in any case. */
  abstract take(now: number, weight: number): Token;
  /** What `token` was given for is called now. */
  called(_token: Token, _now: number): void {}
  release(_token: Token, _weight: number): void {}
  abstract cancel(token: Token, weight: number): void;
  settle(_token: Token, _used: number): void {}

  /** A start that nobody holds a permit for, and the end of one. */
  recordStart(): void {
    this.take(this.clock.now(), 1);
  }
  recordCompletion(): void {}

  /** Somebody was told to wait. */
  refused(_now: number): void {}

  /** The service that the calls go to took one, or refused one for its limit. */
  accepted(): void {}
  rateLimited(): void {}

  /** Nothing may start in the next `ms`. */
  hold(ms: number): void {
    pauseUntil(this.pause, this.clock.now() + ms);
  }

  /** How long until one more could start, for somebody who plans ahead. Where only a release can tell: the pause. */
  nextAvailableIn(now: number): number {
    const wait = this.wait(now, 1);
    return Number.isFinite(wait) ? wait : pauseWait(this.pause, now);
  }

  /**
   * Back to the beginning. What is still under way belongs to the past and gives nothing back. Nobody is told: where
   * several gates are reset together, the first to start must find all of them so.
   */
  abstract reset(): void;

  protected abstract get pause(): Pause;
  /** When do `units` fit, the pause aside? */
  protected abstract fits(now: number, units: number): Wait;

  protected units(weight: number): number {
    return this.counts === "starts" ? 1 : weight;
  }
}

/** A gate with a pause of its own, as most have. */
export abstract class PausableGate<Token> extends Gate<Token> {
  protected pause: Pause = createPause();

  reset(): void {
    this.pause = createPause();
  }
}
