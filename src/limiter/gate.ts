import type { Clock } from "../core/clock.ts";
import { both } from "../limits/compose.ts";
import { createPause, type Pause, pauseUntil, pauseWait } from "../limits/pause.ts";
import { Room } from "../limits/room.ts";
import type { Wait } from "../limits/wait.ts";
import type { Part } from "./part.ts";

/** Those who wait in a row, of whom the first is held up at a gate. */
export interface WaitingLine {
  /** When its first came, compared with everyone else in this process. */
  readonly firstOrder: number;
  /** Lets everyone start whose turn has come. */
  advance(): void;
}

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
  readonly room: Room;
  /** Does it matter at what instant a start happens? */
  abstract readonly timed: boolean;
  protected readonly countsStarts: boolean;
  /** Lines whose first waiter is held up here, in the order in which those waiters came. */
  readonly #blocked: WaitingLine[] = [];
  /** The first of them. A field of its own, for it is looked at before every start. */
  firstBlocked: WaitingLine | undefined = undefined;
  #stopListening: (() => void) | undefined;
  #waking = false;
  #wakeAgain = false;

  constructor({ name, clock, count }: GateSettings, room = new Room()) {
    this.name = name;
    this.clock = clock;
    this.room = room;
    this.countsStarts = count === "starts";
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

  /** Takes, whether or not there is room. */
  abstract take(now: number, weight: number): Token;
  /** The start that `token` stands for came a moment after its decision. */
  started(_token: Token, _now: number): void {}
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

  /** Back to the beginning. What is still under way belongs to the past and gives nothing back. */
  abstract clear(): void;

  get blockedLines(): number {
    return this.#blocked.length;
  }

  /** A line's first waiter has to wait here. */
  block(line: WaitingLine): void {
    let position = this.#blocked.length;
    while (position > 0 && this.#blocked[position - 1]!.firstOrder > line.firstOrder) position -= 1;
    this.#blocked.splice(position, 0, line);
    this.firstBlocked = this.#blocked[0];
    this.#stopListening ??= this.room.listen(() => this.wake());
  }

  /** It need not any more. */
  unblock(line: WaitingLine): void {
    const position = this.#blocked.indexOf(line);
    if (position !== -1) this.#blocked.splice(position, 1);
    this.firstBlocked = this.#blocked[0];
    if (this.#blocked.length > 0) return;
    this.#stopListening?.();
    this.#stopListening = undefined;
  }

  /** There may be room: whoever is held up here tries again, in order, until one has to go on waiting. */
  wake(): void {
    if (this.#waking) {
      this.#wakeAgain = true;
      return;
    }
    this.#waking = true;
    do {
      this.#wakeAgain = false;
      for (let line = this.firstBlocked; line !== undefined; line = this.firstBlocked) {
        line.advance();
        if (this.firstBlocked === line) break;
      }
    } while (this.#wakeAgain);
    this.#waking = false;
  }

  protected abstract get pause(): Pause;
  /** When do `units` fit, the pause aside? */
  protected abstract fits(now: number, units: number): Wait;

  protected units(weight: number): number {
    return this.countsStarts ? 1 : weight;
  }
}

/** A gate with a pause of its own, as most have. */
export abstract class PausableGate<Token> extends Gate<Token> {
  protected pause: Pause = createPause();

  clear(): void {
    this.pause = createPause();
    this.room.appeared();
  }
}
