import type { Clock } from "../core/clock.ts";
import { NEVER, WHEN_RELEASED } from "../limits/wait.ts";
import { type Attempt, attempt, type Refused } from "./attempt.ts";
import type { Blocked, WaitingLine } from "./blocked.ts";
import type { Refusal } from "./limiter.ts";
import { impossible, refusal } from "./refusal.ts";
import { cancel, type Charged, isLate, type Weights } from "./charging.ts";
import type { Composition, Waiter } from "./waiter.ts";

/** The line whose turns are taken. */
export interface Turns extends WaitingLine {
  readonly first: Waiter | undefined;
  readonly length: number;
  shift(): void;
}

/** Without wake-ups (a user's own limiter is full) the next attempt follows after this. */
const SLOW_POLL_MS = 100;
/** The first attempts follow sooner: the limiter's date may have been rounded down. */
const FIRST_POLL_MS = 1;

/** A line stays registered at a gate for so long while a remote part is asked. */
const KEEP_PLACE_MS = 2_000;

/**
 * How a line advances when some of its parts are asynchronous: one attempt at a time, for the first in line;
 * after a refusal it sleeps until the returned time or until a wake-up.
 */
export class RemoteTurns {
  readonly #line: Turns;
  readonly #composition: () => Composition;
  #pollMs = FIRST_POLL_MS;
  #running = false;
  #endSleep: (() => void) | undefined;
  /** The latest refusal of the first in line. */
  #refusedBy: string | undefined;
  #sleepsUntil = Number.POSITIVE_INFINITY;
  /** Where the first in line waits, if a gate refused it. No later waiter passes it there. */
  #place: Blocked | undefined;

  constructor(line: Turns, composition: () => Composition) {
    this.#line = line;
    this.#composition = composition;
  }

  /** A waiter joined or left, or a wake-up came. */
  advance(): void {
    if (this.#running) this.#endSleep?.();
    else void this.#run();
  }

  /** One attempt without a waiter, while the line is empty. */
  async tryTake(weights: Weights): Promise<Charged | Refusal> {
    const { members, clock } = this.#composition();
    if (this.#line.length > 0) {
      const wait = this.#sleepsUntil - clock.now();
      return refusal(this.#refusedBy ?? members.at(-1)?.part.name ?? "", wait > 0 ? wait : WHEN_RELEASED);
    }
    const outcome = await attempt(members, weights, clock, { wanted: () => true, passes: () => false });
    if (outcome === "unwanted") throw new Error("unreachable: it is wanted");
    if (!("tokens" in outcome)) return refusal(outcome.refusedBy.name, outcome.wait);
    const { tokens } = outcome;
    if (!isLate(members, tokens)) return { members, tokens };
    await cancel(members, tokens, weights);
    return this.tryTake(weights);
  }

  /** Never rejects: an error is passed to the waiter it concerns. */
  async #run(): Promise<void> {
    this.#running = true;
    for (let waiter = this.#line.first; waiter !== undefined; waiter = this.#line.first) {
      await this.#serve(waiter);
      if (this.#line.first !== waiter) this.#leavePlace();
    }
    this.#running = false;
  }

  async #serve(waiter: Waiter): Promise<void> {
    const { members, clock } = this.#composition();
    const wanted = () => this.#line.first === waiter;
    const { order } = waiter;
    const passes = (other: WaitingLine) => other === this.#line || other.firstOrder > order;
    // A storage that does not answer must not block lines that do not use it.
    const cancelTimer = this.#place === undefined ? undefined : clock.after(KEEP_PLACE_MS, () => this.#leavePlace());
    let outcome: Attempt;
    try {
      outcome = await attempt(members, waiter.weights, clock, { wanted, passes });
    } catch (error) {
      if (!wanted()) return;
      this.#line.shift();
      waiter.fail(error);
      return;
    } finally {
      cancelTimer?.();
    }
    if (outcome === "unwanted") return;
    if ("tokens" in outcome) {
      this.#pollMs = FIRST_POLL_MS;
      const { tokens } = outcome;
      // Checked in the same step as the call: grants that are too late by now are requested again.
      if (wanted() && !isLate(members, tokens)) {
        this.#line.shift();
        waiter.start(members, tokens);
      } else {
        await Promise.resolve(cancel(members, tokens, waiter.weights)).catch(() => {});
      }
    } else if (wanted()) {
      if (outcome.wait === NEVER) {
        this.#line.shift();
        waiter.fail(impossible(outcome.refusedBy, heaviest(waiter.weights), outcome.most));
      } else {
        const { refusedBy, times } = outcome;
        this.#waitAt(refusedBy.kind === "gate" ? refusedBy.blocked : undefined);
        if (refusedBy.wakeUps.times === times) await this.#sleep(outcome, clock);
      }
    }
  }

  #waitAt(place: Blocked | undefined): void {
    if (place === this.#place) return;
    this.#leavePlace();
    this.#place = place;
    place?.add(this.#line);
  }

  #leavePlace(): void {
    const place = this.#place;
    if (place === undefined) return;
    this.#place = undefined;
    place.remove(this.#line);
    place.wakeUps.notify();
  }

  /** How long to sleep, unless a wake-up comes before; undefined: until a wake-up. */
  #sleepMs({ refusedBy: part, wait }: Refused): number | undefined {
    if (part.kind === "remote" && part.lookAgainMs !== undefined) return Math.min(wait, part.lookAgainMs);
    if (Number.isFinite(wait)) return wait;
    if (part.kind === "gate") return undefined;
    const ms = this.#pollMs;
    this.#pollMs = Math.min(2 * ms, SLOW_POLL_MS);
    return ms;
  }

  #sleep(refused: Refused, waitingBy: Clock): Promise<void> {
    const { refusedBy, wait } = refused;
    // A gate has its own clock; the other parts have none.
    const clock = refusedBy.kind === "gate" ? refusedBy.clock : waitingBy;
    return new Promise((resolve) => {
      const ms = this.#sleepMs(refused);
      this.#refusedBy = refusedBy.name;
      this.#sleepsUntil = waitingBy.now() + wait;
      const cancelTimer = ms === undefined ? () => {} : clock.after(ms, () => this.#endSleep?.());
      const stopListening = refusedBy.wakeUps.listen(() => this.#endSleep?.());
      this.#endSleep = () => {
        this.#endSleep = undefined;
        cancelTimer();
        stopListening();
        resolve();
      };
    });
  }
}

/** For lines with parts that are not gates. */
export type MakeTurns = (line: Turns, composition: () => Composition) => RemoteTurns;
export const remoteTurns: MakeTurns = (line, composition) => new RemoteTurns(line, composition);

/** The largest weight that was given, if any was. */
function heaviest(weights: Weights): number | undefined {
  const given = typeof weights === "number" ? [weights] : weights.filter((weight) => weight !== undefined);
  return given.length === 0 ? undefined : Math.max(...given);
}
