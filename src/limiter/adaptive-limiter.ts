import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import { count, durationOrZero, optional, positive, readOptions, shrinkage } from "../core/options.ts";
import { accepted, type Aimd, type AimdRule, createAimd, markSaturated, refused } from "../limits/aimd.ts";
import { NEVER, type Wait } from "../limits/wait.ts";
import type { StartEntry } from "../limits/window.ts";
import { GateLimiter } from "./line-limiter.ts";
import { RateGate } from "./rate-gate.ts";
import { type CommonLimiterOptions, commonRules, type CountOption, countRule } from "./settings.ts";
import type { WindowSettings } from "./window-gate.ts";

export interface AdaptiveLimiterOptions extends CommonLimiterOptions, CountOption {
  /** The allowance per window never falls below this. Default 1. */
  readonly floor?: number | undefined;
  /** Nor does it rise above this. Default 1000. */
  readonly ceiling?: number | undefined;
  /** Where it begins. Default: the floor. */
  readonly initial?: number | undefined;
  /** The length of the window in seconds. Default 1. */
  readonly windowSizeInSeconds?: number | undefined;
  /** Added to the allowance after each window that was used up without a refusal. Default 1. */
  readonly increase?: number | undefined;
  /** The allowance is multiplied by this when the service refuses: above 0, below 1. Default 0.5. */
  readonly decrease?: number | undefined;
  /** Added to the window. Default 0. */
  readonly guard?: Duration | undefined;
}

const OWNER = "AdaptiveLimiter";

const RULES = {
  ...commonRules(OWNER),
  count: countRule,
  floor: optional(count, 1),
  ceiling: optional(count, 1_000),
  initial: optional(count),
  windowSizeInSeconds: optional(positive, 1),
  increase: optional(positive, 1),
  decrease: optional(shrinkage, 0.5),
  guard: optional(durationOrZero, 0),
};

/**
 * For a service that does not publish its limit: so many per window, where "so many" grows by a step while the service
 * accepts everything and is cut by a factor when it refuses. Report what happened with `recordSuccess()` and
 * `recordRateLimited()`, or use `holdFromHeaders(limiter, response)`.
 */
export class AdaptiveLimiter extends GateLimiter {
  readonly #gate: AdaptiveGate;

  constructor(options: AdaptiveLimiterOptions = {}) {
    const read = readOptions(OWNER, RULES, options);
    const { floor, ceiling, initial = floor } = read;
    if (ceiling < floor) throw new OptionsError(OWNER, "ceiling", ceiling, `at least the floor (${floor})`);
    if (initial < floor || initial > ceiling) {
      throw new OptionsError(OWNER, "initial", initial, `between the floor (${floor}) and the ceiling (${ceiling})`);
    }
    const windowMs = read.windowSizeInSeconds * 1000 + read.guard;
    const gate = new AdaptiveGate(initial, { ...read, windowMs });
    super([gate], AdaptiveLimiter);
    this.#gate = gate;
  }

  /** How many may start in a window at this moment. */
  get allowance(): number {
    return this.#gate.allowance;
  }

  /** The service accepted a call. */
  async recordSuccess(): Promise<void> {
    this.#gate.accepted();
  }

  /** The service refused a call (429). A burst of refusals counts as one. */
  async recordRateLimited(): Promise<void> {
    this.#gate.rateLimited();
  }
}

class AdaptiveGate extends RateGate {
  readonly #rule: AimdRule;
  readonly #initial: number;
  #aimd: Aimd;

  constructor(initial: number, settings: WindowSettings & AimdRule) {
    super(initial, settings);
    this.#rule = settings;
    this.#initial = initial;
    this.#aimd = createAimd(initial, this.clock.now());
  }

  get allowance(): number {
    return Math.floor(this.#aimd.allowance);
  }

  /** A weight up to the ceiling may fit some day. */
  override get capacity(): number {
    return this.#rule.ceiling;
  }

  accepted(): void {
    accepted(this.#aimd, this.#rule, this.clock.now());
    this.resize(this.allowance);
  }

  rateLimited(): void {
    // The start of the refused call is not known. It may have been a window ago, but hardly more.
    const now = this.clock.now();
    refused(this.#aimd, this.#rule, now, now - this.#rule.windowMs);
    this.resize(this.allowance);
  }

  override take(now: number, weight: number): StartEntry {
    const token = super.take(now, weight);
    if (this.wait(now, 1) !== 0) markSaturated(this.#aimd);
    return token;
  }

  /** A weight above the current allowance waits for an empty window; a weight above the ceiling never fits. */
  override wait(now: number, weight: number): Wait {
    return this.units(weight) > this.#rule.ceiling ? NEVER : super.wait(now, Math.min(weight, this.allowance));
  }

  override refused(): void {
    markSaturated(this.#aimd);
  }

  override reset(): void {
    super.reset();
    this.#aimd = createAimd(this.#initial, this.clock.now());
    this.max = this.#initial;
  }
}
