import { type Clock, systemClock } from "../core/clock.ts";
import { nameText } from "../core/names.ts";
import { clock, count, optional, readArgument, readOptions } from "../core/options.ts";
import { createLog, recordStart, type StartLog, viewOf, windowUsed, windowWait } from "../limits/window.ts";

export interface JobRateLimiterOptions {
  /** Where the time comes from. Default: the system's clock. */
  readonly clock?: Clock | undefined;
}

const OWNER = "JobRateLimiter";
const MINUTE = 60_000;
const RULES = { clock: optional(clock, systemClock) };

/**
 * So many jobs of a type in any minute, in this process, for a worker loop of your own. Workers of Sluice need none: a shared
 * limit (`defineLimits`) binds their claims, in every process, and puts no job back.
 */
export class JobRateLimiter {
  readonly #clock: Clock;
  /** The starts of types that had one within a minute of the latest look at them. */
  readonly #logs = new Map<string, StartLog>();

  constructor(options: JobRateLimiterOptions = {}) {
    this.#clock = readOptions(OWNER, RULES, options).clock;
  }

  /** Would one more of this type be within `maxPerMinute`? Nothing is counted. */
  canProcess(type: string, maxPerMinute: number): boolean {
    const max = readArgument(OWNER, "maxPerMinute", count, maxPerMinute);
    const log = this.#logs.get(readArgument(OWNER, "type", nameText, type));
    if (log === undefined) return true;
    const now = this.#clock.now();
    const view = viewOf(log, MINUTE);
    if (windowUsed(log, view, now) === 0) this.#logs.delete(type);
    return windowWait(log, view, max, now, 1) <= 0;
  }

  /** Counts one of this type, now, whether or not it was allowed. */
  record(type: string): void {
    const name = readArgument(OWNER, "type", nameText, type);
    let log = this.#logs.get(name);
    if (log === undefined) {
      log = createLog();
      viewOf(log, MINUTE);
      this.#logs.set(name, log);
    }
    recordStart(log, this.#clock.now(), 1);
  }

  /** Both in one step: counts one of this type if it is within `maxPerMinute`, and says whether it was. */
  tryProcess(type: string, maxPerMinute: number): boolean {
    const can = this.canProcess(type, maxPerMinute);
    if (can) this.record(type);
    return can;
  }
}
