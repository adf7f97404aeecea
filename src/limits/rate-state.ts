import { createPause, type Pause } from "./pause.ts";
import { WakeUps } from "./wake-ups.ts";
import { createLog, type StartLog } from "./window.ts";

/** What is kept under one name: the starts, the pause from outside, and who waits for room. */
export interface RateState {
  log: StartLog;
  /** How many times it was cleared. A start of an earlier generation has nothing to give back. */
  generation: number;
  pause: Pause;
  readonly wakeUps: WakeUps;
}

export const createRateState = (): RateState => ({
  log: createLog(),
  generation: 0,
  pause: createPause(),
  wakeUps: new WakeUps(),
});

/** Back to the beginning. Starts that are under way hold on to the old log: what they give back is nobody's. Tells nobody. */
export function clearRateState(state: RateState): void {
  state.generation += 1;
  state.log = createLog();
  state.pause = createPause();
}
