import { type Clock, systemClock } from "../../src/core/clock.ts";
import { Seeded } from "../conductor/seeded.ts";

/** What a process takes for the time: an hour slow or fast, at twice or half the rate, or set again and again. */
export const CLOCKS = ["behind", "ahead", "fast", "slow", "steps"] as const;
export type WrongClock = (typeof CLOCKS)[number];
/** `days`: two days fast. */
export type ClockKind = WrongClock | "days";

const HOUR_MS = 3_600_000;
const STEP_EVERY_MS = 1_000;
const STEP_MS = 30_000;

let worn: Clock | undefined;

/** The clock of this process: one for all its code, also for code that reads the system's date. */
export function clockOf({ clock: kind, seed }: Worn): Clock {
  if (kind === undefined) return systemClock;
  if (worn === undefined) {
    worn = skewed(kind, seed);
    Date.now = () => worn!.wall();
  }
  return worn;
}

export interface Worn {
  readonly clock?: ClockKind | undefined;
  readonly seed: number;
}

function skewed(kind: ClockKind, seed: number): Clock {
  const rate = kind === "fast" ? 2 : kind === "slow" ? 0.5 : 1;
  const now = () => systemClock.now() * rate;
  const begin = { wall: systemClock.wall(), now: now() };
  const off = { behind: -HOUR_MS, ahead: HOUR_MS, days: 48 * HOUR_MS, fast: 0, slow: 0, steps: 0 }[kind];
  /** Another offset every second. */
  const step = () =>
    kind === "steps" ? new Seeded(seed).fork(String(Math.floor(now() / STEP_EVERY_MS))).integer(-STEP_MS, STEP_MS) : 0;
  return {
    now,
    wall: () => begin.wall + (now() - begin.now) + off + step(),
    after: (ms, callback) => systemClock.after(ms / rate, callback),
  };
}
