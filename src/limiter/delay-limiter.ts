import { positive, readArgument, readOptions } from "../core/options.ts";
import { GateLimiter } from "./line-limiter.ts";
import { type CommonLimiterOptions, commonRules } from "./settings.ts";
import { SpacingGate } from "./spacing-gate.ts";

export interface DelayLimiterOptions extends CommonLimiterOptions {}

const OWNER = "DelayLimiter";

/** A minimum delay from one start to the next, whatever the weights. */
export class DelayLimiter extends GateLimiter {
  readonly delayInMilliseconds: number;

  constructor(delayInMilliseconds = 50, options: DelayLimiterOptions = {}) {
    const delay = readArgument(OWNER, "delayInMilliseconds", positive, delayInMilliseconds);
    super(
      [new SpacingGate(delay, { ...readOptions(OWNER, commonRules(OWNER), options), count: "starts" })],
      DelayLimiter,
    );
    this.delayInMilliseconds = delay;
  }
}
