import { lookAgainIn } from "./look-again.ts";
import type { Wait } from "./wait.ts";

/**
 * At least so much time between one start and the next. The gap that follows a start is fixed when it starts, so one
 * state serves a constant delay and a gap computed from durations.
 *
 * Only the latest start matters: when it was granted, the gap before it was over.
 */
export interface Spacing {
  latest: SpacedStart | undefined;
}

/** A start, and the gap it asks for. */
export interface SpacedStart {
  /** When it was called; before that: when it was granted. */
  at: number;
  called: boolean;
  readonly gap: number;
}

export const createSpacing = (): Spacing => ({ latest: undefined });

/** How long until the next start may follow; after one that is not called yet: when to look again. */
export function spacingWait({ latest }: Spacing, now: number): Wait {
  if (latest === undefined || latest.gap === 0) return 0;
  const age = now - latest.at;
  return latest.called ? Math.max(0, latest.gap - age) : lookAgainIn(age, latest.gap, Number.POSITIVE_INFINITY);
}

/** Grants a start, whether or not its time had come. Until it is called (`callSpaced`) or cancelled none may follow. */
export function grantSpaced(state: Spacing, now: number, gap: number): SpacedStart {
  return follow(state, { at: now, called: false, gap });
}

/** Writes a start that is called now, whether or not its time had come. */
export function recordSpaced(state: Spacing, now: number, gap: number): SpacedStart {
  return follow(state, { at: now, called: true, gap });
}

function follow(state: Spacing, start: SpacedStart): SpacedStart {
  start.at = Math.max(start.at, state.latest?.at ?? start.at);
  state.latest = start;
  return start;
}

/** As if the start had never been. */
export function cancelSpaced(state: Spacing, start: SpacedStart): void {
  if (state.latest === start) state.latest = undefined;
}

/** The start is called now. */
export function callSpaced(state: Spacing, start: SpacedStart, now: number): void {
  if (start.called) return;
  start.at = Math.max(start.at, now);
  start.called = true;
  const { latest } = state;
  // A start that was recorded while this one was uncalled keeps its gap, counted from the later call.
  if (latest !== undefined && latest !== start && latest.called) latest.at = Math.max(latest.at, now);
}

/** The interval that spaces `max` starts evenly over `windowMs`; `max` of them never come to less than the window. */
export function evenInterval(max: number, windowMs: number): number {
  const interval = windowMs / max;
  // The remainder is exact: a small one says that the quotient was rounded down, by less than its last digit.
  const short = windowMs % interval;
  return short > 0 && short < interval / 2 ? interval * (1 + Number.EPSILON) : interval;
}

/** The latest durations of finished work, as many as asked for, and their average. */
export interface Durations {
  readonly size: number;
  readonly recent: number[];
  next: number;
  sum: number;
}

export const createDurations = (size: number): Durations => ({ size, recent: [], next: 0, sum: 0 });

export function recordDuration(durations: Durations, ms: number): void {
  durations.sum += ms - (durations.recent[durations.next] ?? 0);
  durations.recent[durations.next] = ms;
  durations.next = (durations.next + 1) % durations.size;
}

/** The interval less the average duration, never below 0. With nothing finished yet, the interval. */
export function adaptiveGap(interval: number, durations: Durations): number {
  const finished = durations.recent.length;
  return finished === 0 ? interval : Math.max(0, interval - durations.sum / finished);
}
