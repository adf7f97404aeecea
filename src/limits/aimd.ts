/**
 * Additive increase, multiplicative decrease: finds a limit that the service does not publish. While the allowance is used up and
 * nothing is refused, it grows by a fixed step per window; a refusal cuts it by a factor.
 */
export interface AimdRule {
  /** The allowance stays between these. */
  readonly floor: number;
  readonly ceiling: number;
  /** Added after each window that was used to the full without a refusal. */
  readonly increase: number;
  /** Multiplied by on a refusal: above 0, below 1. */
  readonly decrease: number;
  readonly windowMs: number;
}

export interface Aimd {
  /** The allowance, with its fraction; whole units of it are granted. */
  allowance: number;
  /** When it last changed, in either direction. */
  changedAt: number;
  /** When it was last cut. */
  cutAt: number;
  /** Was the allowance used up since then? An allowance that grows unused would only allow a later burst. */
  saturated: boolean;
}

export const createAimd = (initial: number, now: number): Aimd => ({
  allowance: initial,
  changedAt: now,
  cutAt: Number.NEGATIVE_INFINITY,
  saturated: false,
});

/** A start had to wait, or took the last of the allowance. */
export function markSaturated(state: Aimd): void {
  state.saturated = true;
}

/** A call was accepted by the service. */
export function accepted(state: Aimd, rule: AimdRule, now: number): void {
  if (!state.saturated || now - state.changedAt < rule.windowMs) return;
  state.allowance = Math.min(rule.ceiling, state.allowance + rule.increase);
  state.changedAt = now;
  state.saturated = false;
}

/**
 * A call that started at `startedAt` was refused by the service. One burst brings many refusals: those of calls that
 * started before the last cut say nothing about the allowance since.
 */
export function refused(state: Aimd, rule: AimdRule, now: number, startedAt: number): void {
  if (startedAt < state.cutAt) return;
  state.allowance = Math.max(rule.floor, state.allowance * rule.decrease);
  state.changedAt = now;
  state.cutAt = now;
  state.saturated = false;
}
