import type { ErrorRecord } from "../../../core/job.ts";
import { countFailure, holdKey, countSuccess } from "../../../limits/key-state.ts";
import { applies, valueOf } from "../../../limits/rule.ts";
import type { Hold } from "../../../storage/job-storage.ts";
import type { Book } from "../book.ts";
import type { StoredJob } from "../stored-job.ts";
import type { Charged, MemoryLimitState } from "./limit-state.ts";

/** The lease is over: what the job held of its limits comes back. */
export function endStart(book: Book, job: StoredJob, now: number): void {
  for (const charged of job.charges) release(book, charged, book.limitTime(now));
}

/** What a start held comes back, if it held anything. */
export function release(book: Book, charged: Charged, time: number): void {
  const { limitState, rule, slotUse } = charged;
  if (slotUse === undefined) return;
  book.loosen(limitState, rule, time);
  limitState.release(charged);
  book.limits.rest(limitState, rule, time);
}

/** The handler was never called: its start counts nowhere. */
export function takeBack(book: Book, job: StoredJob, now: number): void {
  const time = book.limitTime(now);
  for (const charged of job.charges) {
    book.loosen(charged.limitState, charged.rule, time);
    charged.limitState.cancel(charged);
  }
}

/** It said what it really used. */
export function settleWeights(
  book: Book,
  job: StoredJob,
  weights: Readonly<Record<string, number>>,
  now: number,
): void {
  const time = book.limitTime(now);
  for (const charged of job.charges) {
    const { limitState, rule } = charged;
    if (rule.weight === null || !Object.hasOwn(weights, rule.weight)) continue;
    book.loosen(limitState, rule, time);
    limitState.settle(charged, weights[rule.weight]!, time);
  }
}

/** A service refused the start: it weighs nothing, but for what the job has said that it used. */
export function giveWeightsBack(book: Book, job: StoredJob, settled: readonly string[], now: number): void {
  const time = book.limitTime(now);
  for (const charged of job.charges) {
    const { limitState, rule } = charged;
    if (rule.weight === null || rule.quota.max === null || settled.includes(rule.weight)) continue;
    book.loosen(limitState, rule, time);
    limitState.settle(charged, 0, time);
  }
}

/** Breakers count what failed: for those that are open after that nothing starts. */
export function failed(book: Book, job: StoredJob, { name, code }: ErrorRecord, now: number): void {
  if (job.charges.length === 0) return;
  const time = book.limitTime(now);
  const kinds = code === undefined ? [name] : [name, code];
  for (const { limitState, rule, at } of job.charges) {
    const breaker = book.limits.rule(limitState.name)?.breaker ?? null;
    if (breaker === null) continue;
    // A worker that waits for a probe has no wake-up time: when the probe fails there is one.
    if (limitState.keyState.openUntil !== null) book.loosen(limitState, rule, time);
    countFailure(limitState.keyState, breaker, kinds, at, time);
  }
}

/** What did well closes a breaker that was waiting for that. */
export function succeeded(book: Book, job: StoredJob, now: number): void {
  for (const { limitState, rule, at } of job.charges) {
    if ((book.limits.rule(limitState.name)?.breaker ?? null) === null) continue;
    if (limitState.keyState.openUntil !== null) book.loosen(limitState, rule, book.limitTime(now));
    countSuccess(limitState.keyState, at);
  }
}

/** A service asked to be left alone. */
export function holdLimits(book: Book, job: StoredJob, { names, scope, forMs }: Hold, now: number): void {
  const { limits } = book;
  const time = book.limitTime(now);
  const held = new Set<MemoryLimitState>();
  for (const name of names) {
    const rule = limits.rule(name);
    held.add(rule === undefined ? limits.general(name) : limits.open(rule, valueOf(rule, job)));
  }
  for (const rule of scope ? limits.inForce : []) {
    if (!rule.byGroup && applies(rule, job.queue, job.type)) held.add(limits.open(rule, null));
  }
  for (const limitState of held) {
    limitState.counted = true;
    holdKey(limitState.keyState, time + forMs);
    const rule = limits.rule(limitState.name);
    if (rule !== undefined) limits.rest(limitState, rule, time);
  }
}

/** Permits that were not renewed expire, so many at most. */
export function forgetExpired(book: Book, time: number, most: number): void {
  const { permits } = book;
  for (let done = 0; done < most && permits.hasExpired(time); done++) {
    const permit = permits.first!;
    permits.remove(permit);
    release(book, permit.charged, time);
  }
}
