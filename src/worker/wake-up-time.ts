import type { Claim, Lease } from "../storage/job-storage.ts";

/** After a claim that a wake-up caused and that got nothing, the next such claim waits so long, doubled each time … */
const FIRST_BACKOFF_MS = 25;
/** … up to this: with the sweeps, that is one call a second. */
const LONGEST_BACKOFF_MS = 1_250;
/** … and while others wait beside it, up to this: a worker that misses releases would hardly have a turn. */
const LONGEST_AMONG_OTHERS_MS = 125;
/** When others have waited for so long for slots that a worker has, it leaves them those that it releases next. */
const TURN_MS = 250;
/** It leaves them for so long. All that wait are woken up by the release; one that has started something just now claims as late, too. */
const HAND_OVER_MS = 20;
/** One that has started nothing for so long claims in half of that time; of any two, the one that has waited longer is first. */
const HALVED_MS = 1_000;
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
  /** The jobs that took slots for which others waited, by their tokens; and since when others had waited. */
  readonly #wanted = new Map<number, number>();
  /** Slots that were released are left to others until then. */
  #handsOverUntil = 0;
  /** No claim before that. */
  #leftUntil = 0;
  /** The latest claim was refused until a release. */
  #awaitsRelease = false;

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

  /** Is it better to wait for a batch to fill? Not while more than enough is waiting anyway, or others may take the slots meanwhile. */
  lingers(now: number): boolean {
    if (this.#lingerMs === 0 || this.#backlog || this.#awaitsRelease) return false;
    return this.#lingerUntil === undefined || now < this.#lingerUntil;
  }

  /**
   * These leases are about to end: how many jobs may a claim start in the same step? 0: it is the turn of others to take what is released.
   * While they come for it, jobs whose slots they want are followed by as many others, and nothing takes what was left to them.
   */
  mostAfter(leases: readonly Lease[], now: number): number {
    if (leases.length === 0 || (this.#wanted.size === 0 && now >= this.#handsOverUntil))
      return Number.POSITIVE_INFINITY;
    let wanted = 0;
    let since = Number.POSITIVE_INFINITY;
    for (const { token } of leases) {
      const own = this.#wanted.get(token);
      if (own === undefined) continue;
      this.#wanted.delete(token);
      wanted += 1;
      since = Math.min(since, own);
    }
    if (now < this.#handsOverUntil) return wanted === leases.length ? wanted : 0;
    return now - since >= TURN_MS ? 0 : Number.POSITIVE_INFINITY;
  }

  /** Slots were released, and no claim followed: the worker claims a little later. */
  handedOver(now: number): void {
    this.#othersWaitMs = 0;
    this.#blockedUntil = 0;
    // Other jobs that end meanwhile do not put it off.
    if (now >= this.#handsOverUntil) this.#handsOverUntil = now + HAND_OVER_MS;
    this.#leftUntil = this.#nextAt = this.#handsOverUntil;
  }

  /** May the worker claim now? While a limit blocks, only after a wake-up or at the computed instant. */
  mayClaim(now: number): boolean {
    if (this.#yields) {
      this.#yields = false;
      const delay = HAND_OVER_MS / (1 + (now - this.#servedAt) / HALVED_MS);
      this.#leftUntil = Math.max(this.#leftUntil, now + delay);
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
    this.#yields = false;
    this.#leftUntil = this.#handsOverUntil;
    if (this.#byWakeUp) this.#claimedByWakeUpAt = now;
  }

  /** Takes the answer to a claim of `max`. Returns whether jobs wait that may start at once, or after a release. */
  answered(claim: Claim, max: number, lingers: boolean, now: number): boolean {
    const { jobs, more, nextInMs, blockedBy, othersWaitMs = 0 } = claim;
    this.#othersWaitMs = othersWaitMs;
    if (othersWaitMs > 0) for (const { token } of jobs) this.#wanted.set(token, now - othersWaitMs);
    // Leases that were lost are not settled.
    else if (jobs.length === 0 && blockedBy === null) this.#wanted.clear();
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
    // A claim that only looked has not asked for a slot: others do not know of it.
    const looked = max === 0;
    if (!looked || !more) this.#awaitsRelease = blocked && nextInMs === null;
    if (blocked && this.#nextAt === Number.POSITIVE_INFINITY) this.#nextAt = now + (looked ? 0 : RELEASE_POLL_MS);
    this.#blockedUntil = blocked ? this.#nextAt : 0;
    if (jobs.length > 0) this.#backoffMs = 0;
    else if (this.#byWakeUp) {
      const longest = othersWaitMs > 0 ? LONGEST_AMONG_OTHERS_MS : LONGEST_BACKOFF_MS;
      this.#backoffMs = Math.min(longest, 2 * this.#backoffMs || FIRST_BACKOFF_MS);
    }
    this.#byWakeUp = false;
    return !lingers && (more || this.#awaitsRelease);
  }
}
