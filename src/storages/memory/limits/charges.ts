import type { ErrorRecord } from "../../../core/job.ts";
import { countFailure, countSuccess, holdKey } from "../../../limits/key-state.ts";
import { applies, type LimitRule, valueOf } from "../../../limits/rule.ts";
import type { Hold } from "../../../storage/job-storage.ts";
import type { Book } from "../book.ts";
import type { StoredJob } from "../lanes.ts";
import type { Charged, MemoryLimitState } from "./limit-state.ts";

/** The lease is over: the slots of the job are released. */
export function releaseSlots(book: Book, job: StoredJob, now: number): void {
  for (const charged of job.charges) release(book, charged, book.limitTime(now));
}

/** Releases the slots that a start uses, if it uses any. */
export function release(book: Book, charged: Charged, time: number): void {
  const { limitState, rule, slotUse } = charged;
  if (slotUse === undefined) return;
  book.loosen(limitState, rule, time);
  limitState.release(charged);
  book.limits.rest(limitState, rule, time);
}

/** The handler was never called: the start is charged nowhere. */
export function cancelCharges(book: Book, job: StoredJob, now: number): void {
  const time = book.limitTime(now);
  for (const charged of job.charges) {
    book.loosen(charged.limitState, charged.rule, time);
    charged.limitState.cancel(charged);
  }
}

/** The weights that a job really used. */
export function settleWeights(
  book: Book,
  job: StoredJob,
  weights: Readonly<Record<string, number>>,
  now: number,
): void {
  settleEach(book, job, ({ weight }) => (Object.hasOwn(weights, weight!) ? weights[weight!] : undefined), now);
}

/** A service refused the start: its weights are returned, except those in `settled`, which the job has reported itself. */
export function returnWeights(book: Book, job: StoredJob, settled: readonly string[], now: number): void {
  settleEach(book, job, ({ weight, quota }) => (quota.max === null || settled.includes(weight!) ? undefined : 0), now);
}

/** Under every limit that weighs the job. `usedOf`: undefined leaves the charge as it is. */
function settleEach(book: Book, job: StoredJob, usedOf: (rule: LimitRule) => number | undefined, now: number): void {
  const time = book.limitTime(now);
  for (const charged of job.charges) {
    const { limitState, rule } = charged;
    const used = rule.weight === null ? undefined : usedOf(rule);
    if (used === undefined) continue;
    book.loosen(limitState, rule, time);
    limitState.settle(charged, used, time);
  }
}

/** Breakers count how an attempt ended: enough failures open one, and a success closes one that waits for a probe. */
export function countAttempt(book: Book, job: StoredJob, error: ErrorRecord | null, now: number): void {
  for (const { limitState, rule, at } of job.charges) {
    const breaker = book.limits.rule(limitState.name)?.breaker ?? null;
    if (breaker === null) continue;
    const { keyState } = limitState;
    const time = book.limitTime(now);
    // A worker that waits for a probe has no wake-up time: when the probe fails there is one.
    if (keyState.openUntil !== null) book.loosen(limitState, rule, time);
    if (error === null) countSuccess(keyState, at);
    else countFailure(keyState, breaker, [error.name, error.code ?? error.name], at, time);
  }
}

/** A service asked for a hold. */
export function holdLimits(book: Book, job: StoredJob, { names, scope, forMs }: Hold, now: number): void {
  const { limits } = book;
  const time = book.limitTime(now);
  const held = new Set<MemoryLimitState>();
  for (const name of names) {
    const rule = limits.rule(name);
    held.add(rule === undefined ? limits.general(name) : limits.open(rule, valueOf(rule, job)));
  }
  for (const rule of scope ? limits.inForce : []) {
    if (!rule.byGroup && applies(rule, job.queue, job.type)) held.add(limits.general(rule.name));
  }
  for (const limitState of held) {
    limitState.counted = true;
    holdKey(limitState.keyState, time + forMs);
    const rule = limits.rule(limitState.name);
    if (rule !== undefined) limits.rest(limitState, rule, time);
  }
}
