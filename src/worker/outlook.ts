import type { Claim } from "../storage/job-storage.ts";

/** While a limit is in the way, being woken is no reason to ask more often than this: with the sweeps, once a second. */
const BLOCKED_MS = 1_250;

/** When to ask the storage again, by what it said the last time. All instants are on the monotonic clock. */
export class Outlook {
  readonly #lingerMs: number;
  /** When to look again if nothing is heard before. */
  #nextAt = 0;
  #blockedUntil = 0;
  /** What was in the way at the last look. */
  #blockedBy: string | null = null;
  /** While leave is being asked for: when to look again whether there is still work for it. */
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

  /** There is nothing to ask for until something is signalled. */
  rest(): void {
    this.#nextAt = Number.POSITIVE_INFINITY;
  }

  /** Is it better to wait for a batch to fill? Not while more than enough is waiting anyway. */
  lingers(now: number): boolean {
    if (this.#lingerMs === 0 || this.#backlog) return false;
    return this.#lingerUntil === undefined || now < this.#lingerUntil;
  }

  /** Is there any use in asking? What woke the worker may have made room, or not: that is looked at before long. */
  mayAsk(now: number): boolean {
    const waitsUntil = Math.max(this.#lingerUntil ?? 0, this.#blockedUntil);
    if (now < waitsUntil) this.#nextAt = Math.min(this.#nextAt, waitsUntil);
    return now >= waitsUntil;
  }

  /** There was work when a limiter was asked. Does somebody want to know whether there still is, and is it time? */
  mayPeek(now: number, wanted: boolean): boolean {
    const peeks = wanted && now >= this.#peekAt;
    if (peeks) this.#peekAt = now + BLOCKED_MS;
    else this.#nextAt = wanted ? this.#peekAt : Number.POSITIVE_INFINITY;
    return peeks;
  }

  /** Learns from a claim of `max`. The answer: a limit is in the way, and that is news. */
  learn({ jobs, more, nextInMs, blockedBy }: Claim, max: number, lingers: boolean, now: number): boolean {
    this.#nextAt = nextInMs === null ? Number.POSITIVE_INFINITY : now + nextInMs;
    if (max > 0) {
      this.#lingerUntil = undefined;
      this.#backlog = more;
    }
    if (more && lingers) {
      this.#lingerUntil ??= now + this.#lingerMs;
      this.#nextAt = this.#lingerUntil;
    }
    const blocked = blockedBy !== null && jobs.length === 0;
    this.#blockedUntil = blocked ? Math.min(this.#nextAt, now + BLOCKED_MS) : 0;
    const news = blockedBy !== null && (jobs.length > 0 || this.#blockedBy !== blockedBy);
    this.#blockedBy = blockedBy;
    return news;
  }
}
