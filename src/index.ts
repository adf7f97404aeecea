export type { Clock } from "./core/clock.ts";
export type { Duration } from "./core/duration.ts";
export {
  AbortSignalJobError,
  DuplicateJobError,
  JobError,
  JobNotFoundError,
  JobTimeoutError,
  LateCallError,
  LimitConflictError,
  LimitNotFoundError,
  OptionsError,
  PermanentJobError,
  QueueOverflowError,
  RetryableJobError,
  StaleLeaseError,
  StorageError,
  UnknownOutcomeError,
} from "./core/errors.ts";
export type { JobEvent, JobEventName, JobEvents } from "./core/events.ts";
export type {
  AttemptRecord,
  BackoffPlan,
  ErrorRecord,
  JobCounts,
  JobKeys,
  JobProgress,
  JobRecord,
  JobState,
  JobWarning,
  LogLine,
} from "./core/job.ts";
export type { LimitAuthor, LimitChanged, LimitChangeKind, LimitKept, LimitRulePart } from "./core/limit-change.ts";
export type { BackoffStrategy } from "./core/retry.ts";
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
export { JobRateLimiter, type JobRateLimiterOptions } from "./limiter/job-rate-limiter.ts";
export { rateLimit1, resolveAfter, serializePromises } from "./limiter/promises.ts";
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
export type { LimitInfo, LimitNumbers, LimitUse } from "./limiter/shared/limit-info.ts";
export {
  type LimitHistoryItem,
  type LimitHistoryOptions,
  type LimitNumbersChange,
  Limits,
  type LimitsOptions,
  type PauseOptions,
  type SyncResult,
} from "./limiter/shared/limits.ts";
export type { LimitKeyOptions } from "./limiter/shared/limit-target.ts";
export type { SharedLimitStorage } from "./limiter/shared/limit-wake-ups.ts";
export { SharedLimiter, type SharedLimiterOptions } from "./limiter/shared/shared-limiter.ts";
export type { Remaining } from "./limiter/shared/sync.ts";
export { type DefinedLimits, defineLimits } from "./limits/define.ts";
export type {
  BreakerDefinition,
  DefineLimitsOptions,
  LimitAmount,
  LimitDefinition,
  LimitDefinitions,
  LimitOverride,
  LimitScope,
  LimitWeight,
} from "./limits/definition.ts";
export type { Reason as LimitReason } from "./limits/key-state.ts";
export type { BreakerRule, GroupRule, LimitRule, Quota as LimitQuota } from "./limits/rule.ts";
export type { LimitDrain, QueueExplanation } from "./storage/drain.ts";
export type { Explanation, Blocker, LimitBlocker, OtherBlocker } from "./storage/explain.ts";
export type { Confirmation, Grant } from "./storage/grants.ts";
export type {
  ExecutionCall,
  ExecutionVerdict,
  ExecutionWindow,
  IRateLimiterStorage,
} from "./storage/rate-limiter-storage.ts";
export {
  InMemoryRateLimiterStorage,
  type InMemoryRateLimiterStorageOptions,
} from "./storages/memory/rate-limiter-storage.ts";
export type { LimitDeclared, LimitListener } from "./storage/declaring.ts";
export type {
  Added,
  Change,
  ChangeAction,
  ChangeFilter,
  Claim,
  ClaimLimit,
  ClaimRequest,
  Heartbeat,
  Hold,
  Idempotency,
  JobHistory,
  JobPage,
  JobStorage,
  JobUpdate,
  Lease,
  ListQuery,
  NewJob,
  Outcome,
  QueueOverview,
  Report,
  Subscriber,
  Sweep,
  Updated,
  When,
} from "./storage/job-storage.ts";
export type {
  Backlog,
  DeclareOptions,
  GroupState,
  LimitChange,
  LimitGiven,
  LimitHistoryEntry,
  LimitHistoryQuery,
  LimitQuery,
  LimitsDeclared,
  LimitCondition,
  LimitState,
  LimitStorage,
  LimitTake,
  LimitTaken,
  OnConflict,
  StartConditions,
  TypeBacklog,
} from "./storage/limit-storage.ts";
export type { Registered, UnhandledType, WorkerCounts, WorkerEntry, WorkerRecord } from "./storage/workers.ts";
export { RateLimitedError, type RateLimitedErrorOptions } from "./limiter/rate-limited-error.ts";
export { MemoryStorage, type MemoryStorageOptions } from "./storages/memory/job-storage.ts";
export type { BackoffOption, JobDefaults, QueueDefaults } from "./core/job-defaults.ts";
export type { AddOptions, BulkOptions, JobOptions } from "./queue/add-options.ts";
export type { ChangeAllOptions, DrainOptions, FollowOptions, PurgeOptions, RedriveTarget } from "./queue/bulk.ts";
export type { JobInfo } from "./queue/job-info.ts";
export type { UpdateAnswer, UpdateOptions } from "./queue/update.ts";
export { type BulkEntry, type ListOptions, type ListPage, Queue, type QueueOptions } from "./queue/queue.ts";
export { QueuedJob, type ResultOptions } from "./queue/queued-job.ts";
export type { WorkerInfo } from "./queue/worker-info.ts";
export type { StandardSchema } from "./queue/schema.ts";
export type { BatchContext } from "./worker/batch.ts";
export type { ErrorListener, JobReference } from "./worker/error-reporter.ts";
export type { JobContext, JobView } from "./worker/context.ts";
export type { BatchHandler, Handler } from "./worker/handlers.ts";
export type { BatchOptions, BatchWorkerOptions, LimiterOptions, WorkerOptions } from "./worker/options.ts";
export { type BatchHandlerMap, type HandlerMap, type StopOptions, Worker } from "./worker/worker.ts";
// Until 1.0 also here; `sluice/server` is their door.
export {
  type IJobExecuteContext,
  Job,
  type JobClass,
  type JobDetails,
  type JobFields,
  JobHandle,
  type JobProgressListener,
  JobQueueClient,
  type JobQueueClientOptions,
  JobQueueServer,
  type JobQueueServerOptions,
  type JobQueueStats,
  type SubmitOptions,
} from "./server/index.ts";
