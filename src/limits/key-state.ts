import { both } from "./compose.ts";
import { expectedDelay, lookAgainIn } from "./look-again.ts";
import { type BreakerRule, type Charge, concurrencyWait, type LimitRule, mostOf, quotaOf } from "./rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "./wait.ts";

/**
 * What a limit keeps beside its window and what is held: plain numbers, one set for each group that it counts for. All
 * instants are by the clock of the storage.
 */
export interface KeyState {
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

export const newKeyState = (): KeyState => ({
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
export interface SlotsInUse {
  /** All slots together. */
  readonly slots: number;
  /** How many starts since the breaker went from open to half-open are under way. */
  readonly probes: number;
  /** When the next of what is held runs out by itself; `WHEN_RELEASED`: only somebody can give it back. */
  readonly expiresIn: Wait;
}

export const NO_SLOTS: SlotsInUse = { slots: 0, probes: 0, expiresIn: WHEN_RELEASED };

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

export interface KeyDecision {
  readonly wait: Wait;
  /** What is in the way the longest; null: nothing is. */
  readonly reason: Reason | null;
}

const FITS: KeyDecision = { wait: 0, reason: null };

/**
 * When may a start that takes `charge` happen? `windowWait` answers for the window of the rule, whatever it is kept in:
 * asked for the weight only where the rule has one.
 */
export function decideStart(
  rule: LimitRule,
  group: string | null,
  state: KeyState,
  slots: SlotsInUse,
  charge: Charge,
  now: number,
  windowWait: (max: number, windowMs: number, weight: number) => Wait,
): KeyDecision {
  const quota = quotaOf(rule, group);
  if (mostOf(quota, charge) !== undefined) return { wait: NEVER, reason: "window" };
  let decision = FITS;
  const meet = (wait: Wait, reason: Reason) => {
    if (wait !== 0 && (decision.reason === null || both(decision.wait, wait) !== decision.wait))
      decision = { wait, reason };
  };
  if (rule.paused) meet(WHEN_RELEASED, "paused");
  if (state.pausedUntil !== null) meet(Math.max(0, state.pausedUntil - now), "held");
  if (rule.heldUntil !== undefined) meet(Math.max(0, rule.heldUntil - now), "held");
  if (quota.max !== null && quota.windowMs !== null) {
    if (rule.blindUntil !== undefined) meet(Math.max(0, rule.blindUntil - now), "window");
    meet(quota.max === 0 ? WHEN_RELEASED : windowWait(quota.max, quota.windowMs, charge.weight), "window");
  }
  if (quota.everyMs !== null) meet(spacingWait(state, quota.everyMs, now), "spacing");
  meet(concurrencyWait(quota.concurrency, slots.slots, charge.slots, slots.expiresIn), "concurrency");
  if (state.toldUntil !== null && now < state.toldUntil && charge.weight > (state.toldLeft ?? 0)) {
    meet(state.toldUntil - now, "told");
  }
  if (rule.breaker !== null && state.openUntil !== null) {
    const probing = slots.probes < rule.breaker.probes ? 0 : slots.expiresIn;
    meet(now < state.openUntil ? state.openUntil - now : probing, "breaker");
  }
  return decision;
}

/** How long until the next start may follow the latest; after one that is not confirmed: when to look again. */
function spacingWait({ calledAt, calledBy, calledIn, latestAt }: KeyState, everyMs: number, now: number): Wait {
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
export function chargeKey(state: KeyState, { weight }: Charge, now: number, granted?: Granted): void {
  // Where two are on their way at once, past the spacing, neither may lower what the other needs.
  const others = state.calledAt !== null && state.calledAt > now && state.calledBy !== granted?.by;
  state.latestAt = state.latestAt === null ? now : Math.max(state.latestAt, now);
  state.calledAt = Math.max(granted?.until ?? now, state.calledAt ?? Number.NEGATIVE_INFINITY);
  state.calledBy = others ? null : (granted?.by ?? null);
  if (state.toldLeft !== null) state.toldLeft = Math.max(0, state.toldLeft - weight);
}

/** The calls of this grant were made, the last at this instant, so long after it. */
export function confirmCall(state: KeyState, by: number, at: number, calledIn: number): void {
  if (state.calledBy !== by) {
    // Another start came after it, or beside it; only a call that was made too late is later than what that needs.
    if (state.calledAt !== null) state.calledAt = Math.max(state.calledAt, at);
    return;
  }
  state.calledAt = at;
  state.calledBy = null;
  state.calledIn = calledIn;
}

/**
 * The start that was granted at this instant never was. When it was granted, the time after the one before it was over. What a
 * service said is left stays as it is: it may have said so without knowing of this start.
 */
export function cancelCharge(state: KeyState, startedAt: number): void {
  if (state.latestAt !== startedAt) return;
  state.latestAt = null;
  state.calledAt = null;
  state.calledBy = null;
}

/** A start turns out to have used more than was charged for it: so much less is left of what the service said. */
export function correctCharge(state: KeyState, more: number): void {
  if (state.toldLeft !== null && more > 0) state.toldLeft = Math.max(0, state.toldLeft - more);
}

/** Nothing starts for so long. It only ever extends. */
export function holdKey(state: KeyState, until: number): void {
  state.pausedUntil = state.pausedUntil === null ? until : Math.max(state.pausedUntil, until);
}

/**
 * The service says what is left until its window begins anew. Of what it says about the same window the least holds, for
 * some of what has started may not have reached it yet; a later window is another one.
 */
export function recordRemaining(state: KeyState, remaining: number, resetMs: number, now: number): void {
  const until = now + resetMs;
  const before = state.toldUntil !== null && now < state.toldUntil ? state.toldUntil : null;
  // What is said about one window differs by the time that its answers took, and by how the service rounds: a second.
  if (before !== null && until <= before + SAME_WINDOW_MS) {
    state.toldLeft = Math.min(state.toldLeft ?? remaining, remaining);
    state.toldUntil = Math.max(before, until);
  } else {
    state.toldLeft = remaining;
    state.toldUntil = until;
  }
}

const SAME_WINDOW_MS = 1_500;

/** A start under this limit failed. The answer: does the breaker open with that? */
export function countFailure(
  state: KeyState,
  breaker: BreakerRule,
  kinds: readonly string[],
  startedAt: number,
  now: number,
): boolean {
  if (breaker.kinds !== null && !breaker.kinds.some((kind) => kinds.includes(kind))) return false;
  if (state.openUntil === null) {
    state.failures += 1;
    if (state.failures < breaker.failures) return false;
  } else if (startedAt < state.openUntil) {
    // It began before the breaker opened, and says nothing new.
    return false;
  }
  state.failures = 0;
  state.openUntil = now + breaker.openMs;
  return true;
}

/** A start under this limit did well. The answer: does the breaker close with that? */
export function countSuccess(state: KeyState, startedAt: number): boolean {
  state.failures = 0;
  if (state.openUntil === null || startedAt < state.openUntil) return false;
  state.openUntil = null;
  return true;
}

/** Is there nothing in it that could still matter, with spacing of `everyMs`? */
export function isKeyIdle(state: KeyState, everyMs: number | null, now: number): boolean {
  return (
    (state.pausedUntil === null || state.pausedUntil <= now) &&
    (state.toldUntil === null || state.toldUntil <= now) &&
    (state.calledAt === null || now - state.calledAt >= (everyMs ?? 0)) &&
    state.failures === 0 &&
    state.openUntil === null
  );
}
