import type { Claim } from "../storage/job-storage.ts";

/** After a claim that a wake-up caused and that got nothing, the next such claim waits so long, doubled each time … */
const FIRST_BACKOFF_MS = 25;
/** … up to this: with the sweeps, that is one call a second. */
const LONGEST_BACKOFF_MS = 1_250;
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
    this.#woken = true;
  }

  /** Is it better to wait for a batch to fill? Not while more than enough is waiting anyway. */
  lingers(now: number): boolean {
    if (this.#lingerMs === 0 || this.#backlog) return false;
    return this.#lingerUntil === undefined || now < this.#lingerUntil;
  }

  /** May the worker claim now? While a limit blocks, only after a wake-up or at the computed instant. */
  mayClaim(now: number): boolean {
    const wokenAt = this.#woken ? this.#claimedByWakeUpAt + this.#backoffMs : Number.POSITIVE_INFINITY;
    const waitsUntil = Math.max(this.#lingerUntil ?? 0, Math.min(this.#blockedUntil, wokenAt));
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
  answered({ jobs, more, nextInMs, blockedBy }: Claim, max: number, lingers: boolean, now: number): void {
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
