import { chargeOf, mostOf, quotaOf, weighed } from "../../../limits/rule.ts";
import type { LimitGiven, LimitTake, LimitTaken } from "../../../storage/limit-storage.ts";
import type { Book } from "../book.ts";
import { NOWHERE } from "../heap.ts";
import { forgetExpired, release } from "./giving.ts";
import { verdictOf } from "./tally.ts";

/** So many permits that have expired are forgotten by whoever takes one: there may be nobody who sweeps. */
const FORGOTTEN = 10;

/** Takes of a limit outside of any job, if it fits. */
export function take(book: Book, { name, group: asked, weight, ttlMs }: LimitTake, time: number): LimitTaken {
  forgetExpired(book, time, FORGOTTEN);
  const { limits, permits } = book;
  const { rule } = limits.demand(name);
  const group = rule.byGroup ? asked : null;
  const quota = quotaOf(rule, group);
  const charge = weight === null ? chargeOf(rule, null) : weighed(rule.quota, weight);
  const counted = limits.find(rule, group);
  const { wait } = verdictOf(counted, rule, group, charge, time);
  if (wait !== 0) {
    if (counted !== undefined) counted.awaited = true;
    const most = mostOf(quota, charge) ?? null;
    return { granted: false, retryInMs: most === null && Number.isFinite(wait) ? wait : null, most };
  }
  if (weight === 0) return { granted: true, token: "", held: false };
  const held = quota.concurrency !== null || rule.breaker !== null;
  // What is only counted can be taken back for as long as it is.
  const expiresAt = time + (held ? ttlMs : Math.max(ttlMs, quota.windowMs ?? 0));
  const tally = limits.open(rule, group);
  const taken = tally.take(rule, charge, time, expiresAt);
  limits.rest(tally, rule, time);
  const token = book.nextPermit();
  permits.add({ token, taken, held, expiresAt, slot: NOWHERE });
  return { granted: true, token, held };
}

/** Ends, takes back or corrects what was taken. */
export function give(book: Book, token: string, given: LimitGiven, time: number): void {
  const permit = book.permits.find(token, time);
  if (permit === undefined) return;
  const { taken } = permit;
  const { tally, rule } = taken;
  if (typeof given === "object") {
    book.loosen(tally, rule, time);
    tally.settle(taken, given.used, time);
    return;
  }
  book.permits.remove(permit);
  if (given === "cancelled") {
    book.loosen(tally, rule, time);
    tally.cancel(taken);
  }
  release(book, taken, time);
}

/** Keeps what is held, and answers with the tokens that are lost. */
export function renew(book: Book, tokens: readonly string[], ttlMs: number, time: number): readonly string[] {
  return tokens.filter((token) => {
    const permit = book.permits.find(token, time);
    if (permit === undefined) return true;
    // Never for less long: somebody may have been told when it runs out.
    const until = Math.max(permit.expiresAt, time + ttlMs);
    book.permits.renew(permit, until);
    permit.taken.tally.renew(permit.taken, until);
    return false;
  });
}
