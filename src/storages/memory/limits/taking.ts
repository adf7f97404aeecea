import { PERMITS } from "../../../limits/starved.ts";
import { chargeOf, mostOf, quotaOf, takesSlots, weighed } from "../../../limits/rule.ts";
import { startedAt } from "../../../limits/window.ts";
import { decideFor } from "../../../storage/inspected-key.ts";
import type { LimitGiven, LimitTake, LimitTaken } from "../../../storage/limit-storage.ts";
import { refuseOtherNames } from "../../../storage/stored-rules.ts";
import type { Book } from "../book.ts";
import { release } from "./charges.ts";
import type { Permit } from "./permits.ts";

/** So many expired permits are deleted when one is taken: there may be no worker that sweeps. */
const FORGOTTEN = 10;

/** A permit without slots can be settled for at least so long, because an answer may take long. */
const CORRECTED_MS = 600_000;

/** Takes a permit, if it fits. */
export function take(book: Book, request: LimitTake, time: number): LimitTaken {
  const { name, group: asked, weight, dry, ttlMs, grantTtlMs } = request;
  forgetExpired(book, time, FORGOTTEN);
  const { limits, permits } = book;
  const { rule } = limits.demand(name);
  const others = refuseOtherNames(rule, request);
  if (others !== undefined) return others;
  const group = rule.byGroup ? asked : null;
  const charge = weight === null ? chargeOf(rule, null) : weighed(rule.quota, weight);
  const key = limits.keyAt(rule, group, time);
  const { quota } = key;
  let { wait } = decideFor(key, charge);
  const most = mostOf(quota, charge) ?? null;
  const light = rule.quota.max === null ? charge.slots === 0 : charge.weight === 0;
  // Heavy heads come first, whatever their priority.
  if (most === null && !light) wait = Math.max(wait, book.heavy.longest(key, Number.NEGATIVE_INFINITY));
  const onlyAsks = weight === 0 || dry === true;
  if (wait !== 0) {
    if (key.limitState !== undefined && !onlyAsks) {
      key.limitState.awaited = true;
      key.limitState.starve(PERMITS, time);
    }
    return { granted: false, retryInMs: most === null && Number.isFinite(wait) ? wait : null, most };
  }
  if (onlyAsks) return { granted: true, token: "", held: false };
  const held = takesSlots(rule, group);
  // A permit without slots can be cancelled for as long as its start counts.
  const expiresAt = time + (held ? ttlMs : Math.max(ttlMs, quota.windowMs ?? 0, CORRECTED_MS));
  const limitState = limits.open(rule, group);
  const granted = grantTtlMs === undefined ? undefined : book.grants.next(time, grantTtlMs);
  const charged = limitState.charge(rule, charge, time, expiresAt, granted);
  limits.rest(limitState, rule, time);
  const token = permits.add(charged, expiresAt);
  const grant = granted && book.grants.keep(granted, [[charged]], book.limitNow());
  return { granted: true, token, held, ...(grant !== undefined && { grant }) };
}

/** Releases, cancels or settles a permit. */
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

/** Ends a permit. It may still be settled, as long as its start or a later charge for it counts. */
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
  permits.expireAt(permit, until);
}

/** Renews permits, and answers with the tokens that are lost. */
export function renew(book: Book, tokens: readonly string[], ttlMs: number, time: number): readonly string[] {
  return tokens.filter((token) => {
    const permit = book.permits.find(token, time);
    if (permit === undefined || permit.ended) return true;
    // Never sooner: a claim may have answered with this instant as its wake-up time.
    const until = Math.max(permit.expiresAt, time + ttlMs);
    book.permits.expireAt(permit, until);
    permit.charged.limitState.renew(permit.charged, until);
    return false;
  });
}

/** Deletes expired permits, so many at most. */
export function forgetExpired(book: Book, time: number, most: number): void {
  const { permits } = book;
  for (let done = 0; done < most && permits.hasExpired(time); done++) {
    const permit = permits.first!;
    permits.remove(permit);
    release(book, permit.charged, time);
  }
}
