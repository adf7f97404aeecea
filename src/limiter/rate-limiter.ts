import { type Clock, dateIn, systemClock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import {
  clock,
  count,
  date,
  durationOrZero,
  growth,
  hasMethods,
  missingMethod,
  name,
  optional,
  positive,
  positiveDuration,
  random,
  readArgument,
  readOptions,
  required,
} from "../core/options.ts";
import { type Random, systemRandom } from "../core/random.ts";
import { type IRateLimiterStorage, isAtomic, isLocal, LOCAL } from "../storage/rate-limiter-storage.ts";
import { Backoff } from "./backoff.ts";
import type { LimiterPart } from "./charging.ts";
import type { RateLimiterOptions } from "./evenly-spaced-rate-limiter.ts";
import { LineLimiter } from "./line-limiter.ts";
import { type CountOption, countRule } from "./settings.ts";
import { AtomicStarts, CheckedStarts, LocalStarts, type RateRule, type Starts } from "./starts.ts";

export interface RateLimiterWithBackoffOptions extends RateLimiterOptions, CountOption {
  /** Where the time comes from. Default: the clock of the storage if that is in this process, else the system's. */
  readonly clock?: Clock | undefined;
  /** What `getNextAvailableTime()` adds after the first refusal in a row, in milliseconds. Default 1000. */
  readonly initialBackoffDelay?: number | undefined;
  /** How that grows with every further refusal. Default 2. */
  readonly backoffMultiplier?: number | undefined;
  /** How far it grows, in milliseconds, before jitter. Default 600000 (10 minutes). */
  readonly maxBackoffDelay?: number | undefined;
  /**
   * A grant that took longer than this from the request to its use is dropped (the process was suspended): it stays
   * counted, and a new one is requested. Default 2 s.
   */
  readonly grantTtl?: Duration | undefined;
  /** Where jitter comes from. Default: `Math.random`. */
  readonly random?: Random | undefined;
}

const OWNER = "RateLimiter";

const RULES = {
  clock: optional(clock),
  count: countRule,
  maxExecutions: required(count),
  windowSizeInSeconds: required(positive),
  guard: optional(durationOrZero, 0),
  grantTtl: optional(positiveDuration, 2_000),
  initialBackoffDelay: optional(positive, 1_000),
  backoffMultiplier: optional(growth, 2),
  maxBackoffDelay: optional(positive, 600_000),
  random: optional(random, systemRandom),
};

const SEVEN = [
  "setupDatabase",
  "recordExecution",
  "getExecutionCount",
  "getOldestExecutionAtOffset",
  "getNextAvailableTime",
  "setNextAvailableTime",
  "clear",
];
const THREE = ["tryRecordExecution", "cancelExecution", "settleExecution"];

/**
 * At most `maxExecutions` in any window, exactly, shared by all limiters with the same name in the same storage.
 *
 * A refusal gives the exact wait. Beside it a back-off with jitter grows in this process with every refusal in a row;
 * it shapes only `getNextAvailableTime()`, so that workers that plan ahead by it do not all retry at once.
 */
export class RateLimiter extends LineLimiter {
  readonly queueName: string;
  readonly #clock: Clock;
  readonly #starts: Starts;

  constructor(storage: IRateLimiterStorage, queueName: string, options: RateLimiterWithBackoffOptions) {
    const rule = readRule(readStorage(storage), queueName, options);
    const starts = startsIn(storage, rule);
    super(() => [starts], RateLimiter);
    this.queueName = rule.name;
    this.#clock = rule.clock;
    this.#starts = starts;
  }

  async canProceed(): Promise<boolean> {
    return this.waiting === 0 && (await this.#starts.canStart());
  }

  async recordJobStart(): Promise<void> {
    await this.#starts.record();
  }

  async recordJobCompletion(): Promise<void> {}

  async getNextAvailableTime(): Promise<Date> {
    return dateIn(this.#clock, await this.#starts.nextAvailableIn());
  }

  async setNextAvailableTime(at: Date): Promise<void> {
    await this.#starts.holdUntil(readArgument("setNextAvailableTime", "date", date, at));
  }

  async clear(): Promise<void> {
    await this.#starts.clear();
  }
}

function readRule(storage: IRateLimiterStorage, queueName: string, options: RateLimiterWithBackoffOptions): RateRule {
  const read = readOptions(OWNER, RULES, options);
  const { initialBackoffDelay: initial, backoffMultiplier: multiplier, maxBackoffDelay: max } = read;
  if (max <= initial) {
    throw new OptionsError(OWNER, "maxBackoffDelay", max, `greater than initialBackoffDelay (${initial})`);
  }
  const time = isLocal(storage) ? storage[LOCAL].clock : (read.clock ?? systemClock);
  if (read.clock !== undefined && read.clock !== time) {
    throw new OptionsError(OWNER, "clock", read.clock, "the clock of its storage, or left out");
  }
  return {
    name: readArgument(OWNER, "queueName", name, queueName),
    clock: time,
    count: read.count,
    maxExecutions: read.maxExecutions,
    windowMs: read.windowSizeInSeconds * 1000 + read.guard,
    grantTtl: read.grantTtl,
    backoff: new Backoff({ initial, multiplier, max }, read.random),
  };
}

function readStorage(storage: IRateLimiterStorage): IRateLimiterStorage {
  const missing = missingMethod(storage, SEVEN);
  if (missing !== undefined) {
    throw new OptionsError(OWNER, "storage", storage, "a rate limiter storage", `it has no method ${missing}()`);
  }
  const atomic = missingMethod(storage, THREE);
  if (atomic !== undefined && THREE.some((method) => hasMethods(storage, [method]))) {
    throw new OptionsError(
      OWNER,
      "storage",
      storage,
      `a storage with all of ${THREE.join(", ")} or none of them`,
      `it has no method ${atomic}()`,
    );
  }
  return storage;
}

function startsIn(storage: IRateLimiterStorage, rule: RateRule): Starts & LimiterPart {
  if (isLocal(storage)) return new LocalStarts(storage[LOCAL].state(rule.name), rule);
  return isAtomic(storage) ? new AtomicStarts(storage, rule) : new CheckedStarts(storage, rule);
}
