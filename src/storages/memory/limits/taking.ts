import { type Charge, chargeOf, type LimitRule, mostOf, quotaOf, takesSlots, weighed } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import { startedAt } from "../../../limits/window.ts";
import type { LimitGiven, LimitTake, LimitTaken } from "../../../storage/limit-storage.ts";
import { refuseOtherNames } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import { NOWHERE } from "../heap.ts";
import { forgetExpired, release } from "./giving.ts";
import type { Permit } from "./permits.ts";
import { type MemoryLimitState, decisionOf } from "./limit-state.ts";

/** So many permits that have expired are deleted when one is charged: there may be no worker that sweeps. */
const FORGOTTEN = 10;

/** What only counts can be corrected for so long at least: an answer may be slow to come. */
const CORRECTED_MS = 600_000;

/** Takes of a limit outside of any job, if it fits. */
export function take(book: Book, request: LimitTake, time: number): LimitTaken {
  const { name, group: asked, weight, dry, ttlMs, grantTtlMs } = request;
  forgetExpired(book, time, FORGOTTEN);
  const { limits, permits } = book;
  const { rule } = limits.demand(name);
  const others = refuseOtherNames(rule, request);
  if (others !== undefined) return others;
  const group = rule.byGroup ? asked : null;
  const quota = quotaOf(rule, group);
  const charge = weight === null ? chargeOf(rule, null) : weighed(rule.quota, weight);
  const counted = limits.find(rule, group);
  const wait = waitOf(book, counted, rule, group, charge, time);
  if (wait !== 0) {
    if (counted !== undefined) counted.awaited = true;
    const most = mostOf(quota, charge) ?? null;
    return { granted: false, retryInMs: most === null && Number.isFinite(wait) ? wait : null, most };
  }
  if (weight === 0 || dry === true) return { granted: true, token: "", held: false };
  const held = takesSlots(rule, group);
  // What is only counted can be taken back for as long as it is.
  const expiresAt = time + (held ? ttlMs : Math.max(ttlMs, quota.windowMs ?? 0, CORRECTED_MS));
  const limitState = limits.open(rule, group);
  const granted = grantTtlMs === undefined ? undefined : book.grants.next(time, grantTtlMs);
  const charged = limitState.charge(rule, charge, time, expiresAt, granted);
  limits.rest(limitState, rule, time);
  const token = book.nextPermit();
  permits.add({ token, charged, held, expiresAt, ended: false, slot: NOWHERE });
  const grant = granted && book.grants.keep(granted, [[charged]], book.limitNow());
  return { granted: true, token, held, ...(grant !== undefined && { grant }) };
}

/** Jobs that wait for the limit since they are too heavy come first, whatever their priority. */
function waitOf(
  book: Book,
  limitState: MemoryLimitState | undefined,
  rule: LimitRule,
  group: string | null,
  charge: Charge,
  time: number,
): Wait {
  const { wait } = decisionOf(limitState, rule, group, charge, time);
  const light = rule.quota.max === null ? charge.slots === 0 : charge.weight === 0;
  if (limitState === undefined || wait === NEVER || rule.weight === null || light) return wait;
  return Math.max(wait, book.heavy.longest(limitState, rule, time, Number.NEGATIVE_INFINITY));
}

/** Ends, takes back or corrects what was charged. */
export function give(book: Book, token: string, given: LimitGiven, time: number): void {
  const permit = book.permits.find(token, time);
  if (permit === undefined) return;
  const { charged } = permit;
  const { limitState, rule } = charged;
  if (typeof given === "object") {
    book.loosen(limitState, rule, time);
    limitState.settle(charged, given.used, time);
    return;
  }
  if (permit.ended) return;
  if (given === "cancelled") {
    book.permits.remove(permit);
    book.grants.forget(charged.granted);
    book.loosen(limitState, rule, time);
    limitState.cancel(charged);
  }
  release(book, charged, time);
  if (given === "released") end(book, permit, time);
}

/** The work is done. What it really used may become known while its start counts, or what was charged for it later does. */
function end({ permits }: Book, permit: Permit, time: number): void {
  const { limitState, rule, entry } = permit.charged;
  const at = entry === undefined ? undefined : startedAt(entry);
  const until = at === undefined ? time : at + (quotaOf(rule, limitState.group).windowMs ?? 0);
  if (until <= time) {
    permits.remove(permit);
    return;
  }
  permit.ended = true;
  permit.charged.slotUse = undefined;
  permits.keep(permit, until);
}

/** Keeps what is held, and answers with the tokens that are lost. */
export function renew(book: Book, tokens: readonly string[], ttlMs: number, time: number): readonly string[] {
  return tokens.filter((token) => {
    const permit = book.permits.find(token, time);
    if (permit === undefined || permit.ended) return true;
    // Never sooner: a claim may have answered with the instant at which it expires.
    const until = Math.max(permit.expiresAt, time + ttlMs);
    book.permits.keep(permit, until);
    permit.charged.limitState.renew(permit.charged, until);
    return false;
  });
}
