import { both } from "./compose.ts";
import { expectedDelay, lookAgainIn } from "./look-again.ts";
import { type BreakerRule, type Charge, concurrencyWait, type LimitRule, mostOf, type Quota, quotaOf } from "./rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "./wait.ts";

/**
 * The state of one key of a limit, without its window and its slots: plain numbers, one set for each group. All
 * instants are by the clock of the storage.
 */
export interface KeyState {
  /** When the latest start was granted. */
  latestAt: number | null;
  /** The latest instant at which it can have been called, and the grant whose confirmation may lower it; null: it is confirmed. */
  calledAt: number | null;
  calledBy: number | null;
  /** How long the latest call that was confirmed took from its grant. */
  calledIn: number;
  /** Nothing starts before this instant: a service asked for a hold. */
  heldUntil: number | null;
  /** What the service said is left, and until when that holds. */
  remaining: number | null;
  remainingUntil: number | null;
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
  heldUntil: null,
  remaining: null,
  remainingUntil: null,
  failures: 0,
  openUntil: null,
});

/** The concurrency of a key that is in use. */
export interface SlotsInUse {
  /** All slots together. */
  readonly slots: number;
  /** How many starts since the breaker went from open to half-open are under way. */
  readonly probes: number;
  /** When the next slot expires; `WHEN_RELEASED`: no slot expires, so one has to be released. */
  readonly expiresIn: Wait;
}

export const NO_SLOTS: SlotsInUse = { slots: 0, probes: 0, expiresIn: WHEN_RELEASED };

/** Why a start is refused. */
export type Reason =
  /** The window is full. */
  | "window"
  /** The latest start is less than `every` ago. */
  | "spacing"
  /** All slots are in use. */
  | "concurrency"
  /** An operator paused the limit. */
  | "paused"
  /** The service asked for a hold (`RateLimitedError`, `Retry-After`). */
  | "held"
  /** The service said that nothing remains. */
  | "remaining"
  /** Too many failures in a row. */
  | "breaker";

export interface KeyDecision {
  readonly wait: Wait;
  /** The reason with the longest wait; null: the start is granted. */
  readonly reason: Reason | null;
}

const FITS: KeyDecision = { wait: 0, reason: null };

/**
 * Decides when a start with this `charge` may happen. `windowWait` answers for the window of the rule, however it is stored;
 * it is called only where the rule has a window.
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
  if (state.heldUntil !== null) meet(Math.max(0, state.heldUntil - now), "held");
  if (rule.heldUntil !== undefined) meet(Math.max(0, rule.heldUntil - now), "held");
  if (quota.max !== null && quota.windowMs !== null) {
    if (rule.blindUntil !== undefined) meet(Math.max(0, rule.blindUntil - now), "window");
    meet(quota.max === 0 ? WHEN_RELEASED : windowWait(quota.max, quota.windowMs, charge.weight), "window");
  }
  if (quota.everyMs !== null) meet(spacingWait(state, quota.everyMs, now), "spacing");
  meet(concurrencyWait(quota.concurrency, slots.slots, charge.slots, slots.expiresIn), "concurrency");
  if (state.remainingUntil !== null && now < state.remainingUntil && charge.weight > (state.remaining ?? 0)) {
    meet(state.remainingUntil - now, "remaining");
  }
  if (rule.breaker !== null && state.openUntil !== null) {
    const probing = slots.probes < rule.breaker.probes ? 0 : slots.expiresIn;
    meet(now < state.openUntil ? state.openUntil - now : probing, "breaker");
  }
  return decision;
}

/**
 * How much of a key is available, where nothing refuses one start; infinity: no bound. `used`: how much of its window is in use. A limit
 * that weighs answers in weight; what counts starts then allows at least one.
 */
export function availableNow(
  rule: LimitRule,
  quota: Quota,
  state: Pick<KeyState, "remaining" | "remainingUntil" | "openUntil">,
  slots: Pick<SlotsInUse, "slots" | "probes">,
  used: number,
  now: number,
): number {
  const weighs = rule.weight !== null;
  let free = Number.POSITIVE_INFINITY;
  if (quota.max !== null) free = quota.max - used;
  if (quota.concurrency !== null && !(weighs && quota.max !== null))
    free = Math.min(free, quota.concurrency - slots.slots);
  if (state.remainingUntil !== null && now < state.remainingUntil && !(weighs && quota.max === null))
    free = Math.min(free, state.remaining ?? 0);
  if (weighs) return free;
  if (quota.everyMs !== null) free = Math.min(free, 1);
  if (rule.breaker !== null && state.openUntil !== null) free = Math.min(free, rule.breaker.probes - slots.probes);
  return free;
}

/** How long until the next start may follow the latest one. While that is not confirmed: when to look again. */
function spacingWait({ calledAt, calledBy, calledIn, latestAt }: KeyState, everyMs: number, now: number): Wait {
  if (calledAt === null) return 0;
  const certain = Math.max(0, everyMs - (now - calledAt));
  if (calledBy === null || latestAt === null || certain === 0) return certain;
  return lookAgainIn(now - (latestAt + expectedDelay(calledIn, everyMs)), everyMs, certain);
}

/** A start that is granted now, and the latest instant at which it may be called. */
export interface Granted {
  readonly by: number;
  readonly until: number;
}

/** Records a start that is granted now. Without `granted` it is also called now. */
export function chargeKey(state: KeyState, { weight }: Charge, now: number, granted?: Granted): void {
  // While two granted starts are uncalled at once, the confirmation of one must not lower `calledAt` below what the other needs.
  const others = state.calledAt !== null && state.calledAt > now && state.calledBy !== granted?.by;
  state.latestAt = state.latestAt === null ? now : Math.max(state.latestAt, now);
  state.calledAt = Math.max(granted?.until ?? now, state.calledAt ?? Number.NEGATIVE_INFINITY);
  state.calledBy = others ? null : (granted?.by ?? null);
  if (state.remaining !== null) state.remaining = Math.max(0, state.remaining - weight);
}

/** Confirms the calls of a grant: the last was made at `at`, `calledIn` after the grant. */
export function confirmCall(state: KeyState, by: number, at: number, calledIn: number): void {
  if (state.calledBy !== by) {
    // `calledAt` belongs to a later or parallel start; it only grows, if this call was made too late.
    if (state.calledAt !== null) state.calledAt = Math.max(state.calledAt, at);
    return;
  }
  state.calledAt = at;
  state.calledBy = null;
  state.calledIn = calledIn;
}

/**
 * Takes back the charge of a start that was granted at this instant. The spacing before it was over when it was granted. What the
 * service said remains is not changed: the service may not have counted this start.
 */
export function cancelCharge(state: KeyState, startedAt: number): void {
  if (state.latestAt !== startedAt) return;
  state.latestAt = null;
  state.calledAt = null;
  state.calledBy = null;
}

/** A start used more than its charge: the difference is subtracted from what the service said remains. */
export function correctCharge(state: KeyState, more: number): void {
  if (state.remaining !== null && more > 0) state.remaining = Math.max(0, state.remaining - more);
}

/** Holds the key until this instant. A hold is only ever extended. */
export function holdKey(state: KeyState, until: number): void {
  state.heldUntil = state.heldUntil === null ? until : Math.max(state.heldUntil, until);
}

/**
 * Records what the service says remains until its window resets. Within one window the lowest value holds, because
 * some starts may not have reached the service yet.
 */
export function recordRemaining(state: KeyState, remaining: number, resetMs: number, now: number): void {
  const until = now + resetMs;
  const before = state.remainingUntil !== null && now < state.remainingUntil ? state.remainingUntil : null;
  // Reset times of one window differ by the latency of the answers and by the rounding of the service, to a second.
  if (before !== null && until <= before + SAME_WINDOW_MS) {
    state.remaining = Math.min(state.remaining ?? remaining, remaining);
    state.remainingUntil = Math.max(before, until);
  } else {
    state.remaining = remaining;
    state.remainingUntil = until;
  }
}

const SAME_WINDOW_MS = 1_500;

/** Counts the failure of a start. Returns true if the breaker opens with it. */
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
    // The start began before the breaker opened, so its failure is already counted.
    return false;
  }
  state.failures = 0;
  state.openUntil = now + breaker.openMs;
  return true;
}

/** Counts the success of a start. Returns true if the breaker closes with it. */
export function countSuccess(state: KeyState, startedAt: number): boolean {
  state.failures = 0;
  if (state.openUntil === null || startedAt < state.openUntil) return false;
  state.openUntil = null;
  return true;
}

/** True if no number of the state can affect a decision any more, with spacing of `everyMs`. */
export function isKeyIdle(state: KeyState, everyMs: number | null, now: number): boolean {
  return (
    (state.heldUntil === null || state.heldUntil <= now) &&
    (state.remainingUntil === null || state.remainingUntil <= now) &&
    (state.calledAt === null || now - state.calledAt >= (everyMs ?? 0)) &&
    state.failures === 0 &&
    state.openUntil === null
  );
}
