import type { Claim } from "../storage/job-storage.ts";

/** After a claim that a wake-up caused and that got nothing, the next such claim waits so long, doubled each time … */
const FIRST_BACKOFF_MS = 25;
/** … up to this: with the sweeps, that is one call a second. */
const LONGEST_BACKOFF_MS = 1_250;
/** When others have waited for so long for slots that a worker has, it leaves them those that it releases next. */
const TURN_MS = 250;
/** It leaves them for so long. All that wait are woken up by the release; one that has started something just now claims as late, too. */
const HAND_OVER_MS = 20;
/** One that has started nothing for so long claims at once. In between it claims the sooner the longer it has waited. */
const LONG_WAIT_MS = 5_000;
/** A worker that waits for a release claims again after this, in case no wake-up ever comes. */
const RELEASE_POLL_MS = 30_000;

/** When a worker claims again, by the answer to its latest claim. All instants are on the monotonic clock. */
export class WakeUpTime {
  readonly #lingerMs: number;
  /** When to claim again if no wake-up comes before. */
  #nextAt = 0;
  /** A limit blocks everything until then, unless a wake-up comes. */
  #blockedUntil = 0;
  /** A wake-up came that no claim has followed yet. */
  #woken = false;
  /** The claim that is under way was caused by a wake-up. */
  #byWakeUp = false;
  /** How long after the latest claim that a wake-up caused the next one comes; 0: at once. */
  #backoffMs = 0;
  #claimedByWakeUpAt = Number.NEGATIVE_INFINITY;
  /** While a limiter is being asked: when to look again whether jobs still wait. */
  #peekAt = 0;
  #lingerUntil: number | undefined;
  #backlog = false;
  /** For so long others have waited for the slots of a limit that this worker takes or waits for; 0: none do. */
  #othersWaitMs = 0;
  /** The wake-up that came is one for others as well. */
  #yields = false;
  /** The latest answer with jobs. */
  #servedAt = Number.NEGATIVE_INFINITY;
  /** Slots that were released are left to others until then. */
  #leftUntil = 0;

  /** `lingerMs`: how long to wait for a batch to fill. */
  constructor(lingerMs: number) {
    this.#lingerMs = lingerMs;
  }

  get nextAt(): number {
    return this.#nextAt;
  }

  /** There is nothing to claim until a signal. */
  rest(): void {
    this.#nextAt = Number.POSITIVE_INFINITY;
  }

  /** Something may start that could not before. It counts until the next claim begins. */
  wakeUp(): void {
    if (!this.#woken) this.#yields = this.#othersWaitMs > 0;
    this.#woken = true;
  }

  /** Is it better to wait for a batch to fill? Not while more than enough is waiting anyway. */
  lingers(now: number): boolean {
    if (this.#lingerMs === 0 || this.#backlog) return false;
    return this.#lingerUntil === undefined || now < this.#lingerUntil;
  }

  /** Is it the turn of others to take the slots of jobs that have ended? */
  get handsOver(): boolean {
    return this.#othersWaitMs >= TURN_MS;
  }

  /** Slots were released, and no claim followed: the worker claims a little later. */
  handedOver(now: number): void {
    this.#othersWaitMs = 0;
    this.#blockedUntil = 0;
    this.#leftUntil = this.#nextAt = now + HAND_OVER_MS;
  }

  /** May the worker claim now? While a limit blocks, only after a wake-up or at the computed instant. */
  mayClaim(now: number): boolean {
    if (this.#yields) {
      this.#yields = false;
      const waited = Math.min(1, (now - this.#servedAt) / LONG_WAIT_MS);
      this.#leftUntil = Math.max(this.#leftUntil, now + HAND_OVER_MS * (1 - waited));
    }
    const wokenAt = this.#woken ? this.#claimedByWakeUpAt + this.#backoffMs : Number.POSITIVE_INFINITY;
    const waitsUntil = Math.max(this.#leftUntil, this.#lingerUntil ?? 0, Math.min(this.#blockedUntil, wokenAt));
    if (now >= waitsUntil) {
      this.#byWakeUp = now < this.#blockedUntil;
      return true;
    }
    this.#nextAt = waitsUntil;
    return false;
  }

  /** Jobs waited when the limiter was asked. Is it time to look whether they still do? `wanted`: a caller of `onIdle` waits. */
  mayPeek(now: number, wanted: boolean): boolean {
    const peeks = wanted && now >= this.#peekAt;
    if (peeks) this.#peekAt = now + LONGEST_BACKOFF_MS;
    else this.#nextAt = wanted ? this.#peekAt : Number.POSITIVE_INFINITY;
    return peeks;
  }

  /** A claim begins: it may miss what happens from now on. */
  claims(now: number): void {
    this.#woken = false;
    if (this.#byWakeUp) this.#claimedByWakeUpAt = now;
  }

  /** Takes the answer to a claim of `max`. */
  answered(claim: Claim, max: number, lingers: boolean, now: number): void {
    const { jobs, more, nextInMs, blockedBy, othersWaitMs = 0 } = claim;
    this.#othersWaitMs = othersWaitMs;
    if (jobs.length > 0) this.#servedAt = now;
    this.#nextAt = nextInMs === null ? Number.POSITIVE_INFINITY : now + nextInMs;
    if (max > 0) {
      this.#lingerUntil = undefined;
      this.#backlog = more;
    }
    if (more && lingers) {
      this.#lingerUntil ??= now + this.#lingerMs;
      this.#nextAt = this.#lingerUntil;
    }
    const blocked = blockedBy !== null && !more;
    if (blocked && this.#nextAt === Number.POSITIVE_INFINITY) this.#nextAt = now + RELEASE_POLL_MS;
    this.#blockedUntil = blocked ? this.#nextAt : 0;
    if (jobs.length > 0) this.#backoffMs = 0;
    else if (this.#byWakeUp) this.#backoffMs = Math.min(LONGEST_BACKOFF_MS, 2 * this.#backoffMs || FIRST_BACKOFF_MS);
    this.#byWakeUp = false;
  }
}
