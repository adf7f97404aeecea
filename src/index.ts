export type { Clock } from "./core/clock.ts";
export type { Duration } from "./core/duration.ts";
export { JobError, OptionsError, QueueOverflowError } from "./core/errors.ts";
export { AdaptiveLimiter, type AdaptiveLimiterOptions } from "./limiter/adaptive-limiter.ts";
export { CompositeLimiter } from "./limiter/composite-limiter.ts";
export { ConcurrencyLimiter, type ConcurrencyLimiterOptions } from "./limiter/concurrency-limiter.ts";
export { DelayLimiter, type DelayLimiterOptions } from "./limiter/delay-limiter.ts";
export {
  EvenlySpacedRateLimiter,
  type EvenlySpacedRateLimiterOptions,
  type RateLimiterOptions,
} from "./limiter/evenly-spaced-rate-limiter.ts";
export { type FeedbackOptions, holdFromHeaders, readRateLimitHeaders } from "./limiter/feedback.ts";
export type { HeadersLike, HeaderSource, Quota, RateLimitFeedback } from "./limiter/headers.ts";
export type { AnyFunction } from "./limiter/calls.ts";
export { concurrencyLimit, limit, type Limited, type LimitOptions, rateLimit } from "./limiter/limit.ts";
export type { AcquireOptions, ILimiter, Limiter, Permit, Refusal, TryAcquireOptions } from "./limiter/limiter.ts";
export { NullLimiter } from "./limiter/null-limiter.ts";
export { RateLimiter, type RateLimiterWithBackoffOptions } from "./limiter/rate-limiter.ts";
export {
  CONCURRENT_JOB_LIMITER,
  createServiceToken,
  EVENLY_SPACED_JOB_RATE_LIMITER,
  globalServiceRegistry,
  JOB_LIMITER,
  NULL_JOB_LIMITER,
  ServiceRegistry,
  type ServiceToken,
} from "./limiter/registry.ts";
export type { ExecutionVerdict, ExecutionWindow, IRateLimiterStorage } from "./storage/rate-limiter-storage.ts";
export {
  InMemoryRateLimiterStorage,
  type InMemoryRateLimiterStorageOptions,
} from "./storages/memory/rate-limiter-storage.ts";
