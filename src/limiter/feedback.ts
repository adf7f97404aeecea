import { type Clock, dateIn, systemClock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import { clock, optional, positiveDuration, readOptions } from "../core/options.ts";
import { AdaptiveLimiter } from "./adaptive-limiter.ts";
import { type HeaderSource, isHeaderSource, type RateLimitFeedback, readHeaders } from "./headers.ts";
import type { ILimiter } from "./limiter.ts";
import { readLimiter } from "./parts.ts";

export interface FeedbackOptions {
  /** A service that asks for more than this is taken to have meant this. Default one day. */
  readonly maxHold?: Duration | undefined;
  /** Where the time comes from. Default: the system's clock. */
  readonly clock?: Clock | undefined;
}

const RULES = { maxHold: optional(positiveDuration, 86_400_000), clock: optional(clock, systemClock) };

/** Reads what a response says about limits, and does nothing about it. */
export function readRateLimitHeaders(source: HeaderSource, options: FeedbackOptions = {}): RateLimitFeedback {
  const read = readOptions("readRateLimitHeaders", RULES, options);
  return feedback("readRateLimitHeaders", source, read);
}

/**
 * Does what a response says about limits: holds `limiter` until a quota that is used up comes back, or for as long as
 * `Retry-After` asks for. An `AdaptiveLimiter` also learns from the status. The answer is what was read.
 */
export async function holdFromHeaders(
  limiter: ILimiter,
  source: HeaderSource,
  options: FeedbackOptions = {},
): Promise<RateLimitFeedback> {
  const target = readLimiter("holdFromHeaders", "limiter", limiter);
  const read = readOptions("holdFromHeaders", RULES, options);
  const told = feedback("holdFromHeaders", source, read);
  if (target instanceof AdaptiveLimiter && told.status !== undefined) {
    await (told.status === 429 ? target.recordRateLimited() : target.recordSuccess());
  }
  if (told.holdMs > 0) await target.setNextAvailableTime(dateIn(read.clock, told.holdMs));
  return told;
}

function feedback(
  owner: string,
  source: HeaderSource,
  rules: { readonly maxHold: number; readonly clock: Clock },
): RateLimitFeedback {
  if (!isHeaderSource(source)) throw new OptionsError(owner, "source", source, "a Response or Headers");
  const read = readHeaders(source, rules.clock.wall());
  return { ...read, holdMs: Math.min(read.holdMs, rules.maxHold) };
}
