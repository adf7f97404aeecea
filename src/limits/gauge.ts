import { both } from "./compose.ts";
import { expectedDelay, lookAgainIn } from "./look-again.ts";
import { type BreakerRule, type Charge, concurrencyWait, type LimitRule, mostOf, quotaOf } from "./rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "./wait.ts";

/**
 * What a limit keeps beside its window and what is held: plain numbers, one set for each group that it counts for. All
 * instants are by the clock of the storage.
 */
export interface Gauge {
  /** When the latest start was granted. */
  latestAt: number | null;
  /** The latest instant at which it can have been called, and the grant by which that may still become less; null: it is known. */
  calledAt: number | null;
  calledBy: number | null;
  /** How long the latest call that was confirmed took from its grant. */
  calledIn: number;
  /** Nothing starts before: somebody from outside said so. */
  pausedUntil: number | null;
  /** What the service said is left, and until when that holds. */
  toldLeft: number | null;
  toldUntil: number | null;
  /** Failures in a row, while the breaker is closed. */
  failures: number;
  /** Set while the breaker is open, and after that until a probe has succeeded. */
  openUntil: number | null;
}

export const newGauge = (): Gauge => ({
  latestAt: null,
  calledAt: null,
  calledBy: null,
  calledIn: 0,
  pausedUntil: null,
  toldLeft: null,
  toldUntil: null,
  failures: 0,
  openUntil: null,
});

/** What is held at this moment. */
export interface Held {
  /** All slots together. */
  readonly slots: number;
  /** How many starts since the breaker went from open to half-open are under way. */
  readonly probes: number;
  /** When the next of what is held runs out by itself; `WHEN_RELEASED`: only somebody can give it back. */
  readonly expiresIn: Wait;
}

export const NOTHING_HELD: Held = { slots: 0, probes: 0, expiresIn: WHEN_RELEASED };

/** What keeps a start back. */
export type Reason =
  /** The window is full. */
  | "window"
  /** The latest start was too short a time ago. */
  | "spacing"
  /** As many as may run at a time do. */
  | "concurrency"
  /** Somebody stopped the limit by hand. */
  | "paused"
  /** The service asked to be left alone (`RateLimitedError`, `Retry-After`). */
  | "held"
  /** The service said that no more is left. */
  | "told"
  /** Too many failures in a row. */
  | "breaker";

export interface Verdict {
  readonly wait: Wait;
  /** What is in the way the longest; null: nothing is. */
  readonly reason: Reason | null;
}

const FITS: Verdict = { wait: 0, reason: null };

/**
 * When may a start that takes `charge` happen? `windowWait` answers for the window of the rule, whatever it is kept in:
 * asked for the weight only where the rule has one.
 */
export function gaugeWait(
  rule: LimitRule,
  group: string | null,
  gauge: Gauge,
  held: Held,
  charge: Charge,
  now: number,
  windowWait: (max: number, windowMs: number, weight: number) => Wait,
): Verdict {
  const quota = quotaOf(rule, group);
  if (mostOf(quota, charge) !== undefined) return { wait: NEVER, reason: "window" };
  let verdict = FITS;
  const meet = (wait: Wait, reason: Reason) => {
    if (wait !== 0 && (verdict.reason === null || both(verdict.wait, wait) !== verdict.wait))
      verdict = { wait, reason };
  };
  if (rule.paused) meet(WHEN_RELEASED, "paused");
  if (gauge.pausedUntil !== null) meet(Math.max(0, gauge.pausedUntil - now), "held");
  if (rule.heldUntil !== undefined) meet(Math.max(0, rule.heldUntil - now), "held");
  if (quota.max !== null && quota.windowMs !== null) {
    if (rule.blindUntil !== undefined) meet(Math.max(0, rule.blindUntil - now), "window");
    meet(quota.max === 0 ? WHEN_RELEASED : windowWait(quota.max, quota.windowMs, charge.weight), "window");
  }
  if (quota.everyMs !== null) meet(spacingWait(gauge, quota.everyMs, now), "spacing");
  meet(concurrencyWait(quota.concurrency, held.slots, charge.slots, held.expiresIn), "concurrency");
  if (gauge.toldUntil !== null && now < gauge.toldUntil && charge.weight > (gauge.toldLeft ?? 0)) {
    meet(gauge.toldUntil - now, "told");
  }
  if (rule.breaker !== null && gauge.openUntil !== null) {
    const probing = held.probes < rule.breaker.probes ? 0 : held.expiresIn;
    meet(now < gauge.openUntil ? gauge.openUntil - now : probing, "breaker");
  }
  return verdict;
}

/** How long until the next start may follow the latest; after one that is not confirmed: when to look again. */
function spacingWait({ calledAt, calledBy, calledIn, latestAt }: Gauge, everyMs: number, now: number): Wait {
  if (calledAt === null) return 0;
  const certain = Math.max(0, everyMs - (now - calledAt));
  if (calledBy === null || latestAt === null || certain === 0) return certain;
  return lookAgainIn(now - (latestAt + expectedDelay(calledIn, everyMs)), everyMs, certain);
}

/** A start that is granted now, and the last moment at which it is called. */
export interface Granted {
  readonly by: number;
  readonly until: number;
}

/** A start is granted now; without `granted` it is called now as well. */
export function gaugeTake(gauge: Gauge, { weight }: Charge, now: number, granted?: Granted): void {
  // Where two are on their way at once, past the spacing, neither may lower what the other needs.
  const others = gauge.calledAt !== null && gauge.calledAt > now && gauge.calledBy !== granted?.by;
  gauge.latestAt = gauge.latestAt === null ? now : Math.max(gauge.latestAt, now);
  gauge.calledAt = Math.max(granted?.until ?? now, gauge.calledAt ?? Number.NEGATIVE_INFINITY);
  gauge.calledBy = others ? null : (granted?.by ?? null);
  if (gauge.toldLeft !== null) gauge.toldLeft = Math.max(0, gauge.toldLeft - weight);
}

/** The calls of this grant were made, the last at this instant, so long after it. */
export function gaugeCall(gauge: Gauge, by: number, at: number, calledIn: number): void {
  if (gauge.calledBy !== by) {
    // Another start came after it, or beside it; only a call that was made too late is later than what that needs.
    if (gauge.calledAt !== null) gauge.calledAt = Math.max(gauge.calledAt, at);
    return;
  }
  gauge.calledAt = at;
  gauge.calledBy = null;
  gauge.calledIn = calledIn;
}

/**
 * The start that was granted at this instant never was. When it was granted, the time after the one before it was over. What a
 * service said is left stays as it is: it may have said so without knowing of this start.
 */
export function gaugeCancel(gauge: Gauge, startedAt: number): void {
  if (gauge.latestAt !== startedAt) return;
  gauge.latestAt = null;
  gauge.calledAt = null;
  gauge.calledBy = null;
}

/** A start turns out to have used more than was charged for it: so much less is left of what the service said. */
export function gaugeCharge(gauge: Gauge, more: number): void {
  if (gauge.toldLeft !== null && more > 0) gauge.toldLeft = Math.max(0, gauge.toldLeft - more);
}

/** Nothing starts for so long. It only ever extends. */
export function gaugeHold(gauge: Gauge, until: number): void {
  gauge.pausedUntil = gauge.pausedUntil === null ? until : Math.max(gauge.pausedUntil, until);
}

/**
 * The service says what is left until its window begins anew. Of what it says about the same window the least holds, for
 * some of what has started may not have reached it yet; a later window is another one.
 */
export function gaugeTell(gauge: Gauge, remaining: number, resetMs: number, now: number): void {
  const until = now + resetMs;
  const before = gauge.toldUntil !== null && now < gauge.toldUntil ? gauge.toldUntil : null;
  // What is said about one window differs by the time that its answers took, and by how the service rounds: a second.
  if (before !== null && until <= before + SAME_WINDOW_MS) {
    gauge.toldLeft = Math.min(gauge.toldLeft ?? remaining, remaining);
    gauge.toldUntil = Math.max(before, until);
  } else {
    gauge.toldLeft = remaining;
    gauge.toldUntil = until;
  }
}

const SAME_WINDOW_MS = 1_500;

/** A start under this limit failed. The answer: does the breaker open with that? */
export function gaugeFail(
  gauge: Gauge,
  breaker: BreakerRule,
  kinds: readonly string[],
  startedAt: number,
  now: number,
): boolean {
  if (breaker.kinds !== null && !breaker.kinds.some((kind) => kinds.includes(kind))) return false;
  if (gauge.openUntil === null) {
    gauge.failures += 1;
    if (gauge.failures < breaker.failures) return false;
  } else if (startedAt < gauge.openUntil) {
    // It began before the breaker opened, and says nothing new.
    return false;
  }
  gauge.failures = 0;
  gauge.openUntil = now + breaker.openMs;
  return true;
}

/** A start under this limit did well. The answer: does the breaker close with that? */
export function gaugeSucceed(gauge: Gauge, startedAt: number): boolean {
  gauge.failures = 0;
  if (gauge.openUntil === null || startedAt < gauge.openUntil) return false;
  gauge.openUntil = null;
  return true;
}

/** Is there nothing in it that could still matter, with spacing of `everyMs`? */
export function isGaugeIdle(gauge: Gauge, everyMs: number | null, now: number): boolean {
  return (
    (gauge.pausedUntil === null || gauge.pausedUntil <= now) &&
    (gauge.toldUntil === null || gauge.toldUntil <= now) &&
    (gauge.calledAt === null || now - gauge.calledAt >= (everyMs ?? 0)) &&
    gauge.failures === 0 &&
    gauge.openUntil === null
  );
}
