import { createHold, type Hold } from "./hold.ts";
import { WakeUps } from "./wake-ups.ts";
import { createLog, type StartLog } from "./window.ts";

/** The state kept under one name: the starts, the hold set from outside, and the wake-ups of waiters. */
export interface RateState {
  log: StartLog;
  /** How many times it was cleared. A start of an earlier generation has nothing to give back. */
  generation: number;
  hold: Hold;
  readonly wakeUps: WakeUps;
}

export const createRateState = (): RateState => ({
  log: createLog(),
  generation: 0,
  hold: createHold(),
  wakeUps: new WakeUps(),
});

/** Resets the state. Starts in flight keep the old log, so what they return is ignored. Sends no wake-up. */
export function clearRateState(state: RateState): void {
  state.generation += 1;
  state.log = createLog();
  state.hold = createHold();
}
