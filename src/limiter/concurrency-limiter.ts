import { countOrZero, readArgument, readOptions } from "../core/options.ts";
import { GateLimiter } from "./line-limiter.ts";
import { type CommonLimiterOptions, commonRules, type CountOption, countRule } from "./settings.ts";
import { LimiterSlotsGate } from "./slots-gate.ts";

export interface ConcurrencyLimiterOptions extends CommonLimiterOptions, CountOption {}

const OWNER = "ConcurrencyLimiter";

/** At most so many jobs at the same time, in this process. */
export class ConcurrencyLimiter extends GateLimiter {
  readonly #gate: LimiterSlotsGate;

  /** `maxConcurrentJobs`: how many may run at the same time. 0 means paused: everything waits until it is raised. */
  constructor(maxConcurrentJobs: number, options: ConcurrencyLimiterOptions = {}) {
    const max = readArgument(OWNER, "maxConcurrentJobs", countOrZero, maxConcurrentJobs);
    const gate = new LimiterSlotsGate(max, readOptions(OWNER, { ...commonRules(OWNER), count: countRule }, options));
    super([gate], ConcurrencyLimiter);
    this.#gate = gate;
  }

  /** How many may run at the same time. After a higher number, waiters that fit start at once. */
  get maxConcurrentJobs(): number {
    return this.#gate.capacity;
  }

  set maxConcurrentJobs(max: number) {
    this.#gate.resize(readArgument(OWNER, "maxConcurrentJobs", countOrZero, max));
  }

  /** How much is running (the sum of the weights). */
  get running(): number {
    return this.#gate.inUse;
  }
}
