import { type Clock, dateIn, systemClock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import { clock, optional, positiveDuration, readOptions } from "../core/options.ts";
import { type HeaderSource, isHeaderSource, LONGEST_HOLD_MS, type RateLimitFeedback, readHeaders } from "./headers.ts";
import type { ILimiter } from "./limiter.ts";
import { allPartsOf, readLimiter } from "./parts.ts";

export interface FeedbackOptions {
  /** A service that asks for more than this is taken to have meant this. Default one day. */
  readonly maxHold?: Duration | undefined;
  /** Where the time comes from. Default: the clock of the limiter, else the system's. */
  readonly clock?: Clock | undefined;
}

const RULES = { maxHold: optional(positiveDuration, LONGEST_HOLD_MS), clock: optional(clock) };

/** Reads what a response says about limits, without applying it. */
export function readRateLimitHeaders(source: HeaderSource, options: FeedbackOptions = {}): RateLimitFeedback {
  const read = readOptions("readRateLimitHeaders", RULES, options);
  return feedback("readRateLimitHeaders", source, read.maxHold, read.clock ?? systemClock);
}

/**
 * Applies what a response says about limits: holds `limiter` until a used-up quota resets, or for as long as
 * `Retry-After` asks for. An `AdaptiveLimiter`, alone or in a composite, also learns from the status. Returns what
 * was read.
 */
export async function holdFromHeaders(
  limiter: ILimiter,
  source: HeaderSource,
  options: FeedbackOptions = {},
): Promise<RateLimitFeedback> {
  const target = readLimiter("holdFromHeaders", "limiter", limiter);
  const read = readOptions("holdFromHeaders", RULES, options);
  const parts = allPartsOf(target);
  const time = read.clock ?? parts[0]?.clock ?? systemClock;
  const said = feedback("holdFromHeaders", source, read.maxHold, time);
  const lesson = lessonOf(said);
  if (lesson !== undefined) for (const part of parts) if (part.kind === "gate") part[lesson]?.();
  // One millisecond more: dates hold whole milliseconds, and the service asks for a minimum.
  if (said.holdMs > 0) await target.setNextAvailableTime(dateIn(time, said.holdMs + 1));
  return said;
}

/** What a status says about the limit of the service. An error of the service (5xx) says nothing. */
function lessonOf({ status, retryInMs }: RateLimitFeedback): "accepted" | "rateLimited" | undefined {
  if (status === 429 || (status === 503 && retryInMs !== undefined)) return "rateLimited";
  return status !== undefined && status < 500 ? "accepted" : undefined;
}

function feedback(owner: string, source: HeaderSource, maxHold: number, time: Clock): RateLimitFeedback {
  if (!isHeaderSource(source)) throw new OptionsError(owner, "source", source, "a Response or Headers");
  const read = readHeaders(source, time.wall());
  return { ...read, holdMs: Math.min(read.holdMs, maxHold) };
}
