import type { Claim } from "../storage/job-storage.ts";

/** What was in vain because of news is not done again before this has passed, doubled each time … */
const FIRST_PATIENCE_MS = 25;
/** … up to this: with the sweeps, that is once a second. */
const LONGEST_PATIENCE_MS = 1_250;
/** Who waits for something to be given back looks so often by itself, should nobody ever tell. */
const LAST_RESORT_MS = 30_000;

/** When to ask the storage again, by what it said the last time. All instants are on the monotonic clock. */
export class Outlook {
  readonly #lingerMs: number;
  /** When to look again if nothing is heard before. */
  #nextAt = 0;
  /** What was last told to be in the way, and when. */
  #told: string | null = null;
  #toldAt = Number.NEGATIVE_INFINITY;
  /** It has let something through since, or was not in the way. */
  #passed = false;
  /** A limit keeps back all there is until then, unless there is news. */
  #blockedUntil = 0;
  /** There is news that nobody has looked at. */
  #news = false;
  /** The look that is under way is for the sake of news. */
  #curious = false;
  /** How long after the latest look for news the next one comes; 0: at once. */
  #patience = 0;
  #curiousAt = Number.NEGATIVE_INFINITY;
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

  /** Something is there that was not there before. It counts until the next look begins. */
  heardNews(): void {
    this.#news = true;
  }

  /** Is it better to wait for a batch to fill? Not while more than enough is waiting anyway. */
  lingers(now: number): boolean {
    if (this.#lingerMs === 0 || this.#backlog) return false;
    return this.#lingerUntil === undefined || now < this.#lingerUntil;
  }

  /** Is there any use in asking? While a limit is in the way only news, or the computed instant, is a reason to. */
  mayAsk(now: number): boolean {
    const curiousAt = this.#news ? this.#curiousAt + this.#patience : Number.POSITIVE_INFINITY;
    const waitsUntil = Math.max(this.#lingerUntil ?? 0, Math.min(this.#blockedUntil, curiousAt));
    if (now >= waitsUntil) {
      this.#curious = now < this.#blockedUntil;
      return true;
    }
    this.#nextAt = waitsUntil;
    return false;
  }

  /** There was work when a limiter was asked. Does somebody want to know whether there still is, and is it time? */
  mayPeek(now: number, wanted: boolean): boolean {
    const peeks = wanted && now >= this.#peekAt;
    if (peeks) this.#peekAt = now + LONGEST_PATIENCE_MS;
    else this.#nextAt = wanted ? this.#peekAt : Number.POSITIVE_INFINITY;
    return peeks;
  }

  /** A look begins: what is heard from now on it may miss. */
  looks(now: number): void {
    this.#news = false;
    if (this.#curious) this.#curiousAt = now;
  }

  /** Learns from a claim of `max`. The answer: a limit is in the way, and that is worth telling. */
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
    const blocked = blockedBy !== null && !more;
    if (blocked && this.#nextAt === Number.POSITIVE_INFINITY) this.#nextAt = now + LAST_RESORT_MS;
    this.#blockedUntil = blocked ? this.#nextAt : 0;
    if (jobs.length > 0) this.#patience = 0;
    else if (this.#curious) this.#patience = Math.min(LONGEST_PATIENCE_MS, 2 * this.#patience || FIRST_PATIENCE_MS);
    this.#curious = false;
    return this.#tells(blockedBy, jobs.length > 0, now);
  }

  /** Telling costs as much as looking: what is in the way again and again is told now and then. */
  #tells(blockedBy: string | null, started: boolean, now: number): boolean {
    this.#passed ||= started || blockedBy === null;
    if (blockedBy === null) return false;
    const other = blockedBy !== this.#told;
    if (!(other || this.#passed) || (!(other && started) && now < this.#toldAt + LONGEST_PATIENCE_MS)) return false;
    this.#told = blockedBy;
    this.#toldAt = now;
    this.#passed = false;
    return true;
  }
}
