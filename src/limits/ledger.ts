import { createPause, type Pause } from "./pause.ts";
import { Room } from "./room.ts";
import { createLog, type StartLog } from "./window.ts";

/** What is kept under one name: the starts, the pause from outside, and who waits for room. */
export interface Ledger {
  log: StartLog;
  /** How many times it was cleared. A start of an earlier generation has nothing to give back. */
  generation: number;
  pause: Pause;
  readonly room: Room;
}

export const createLedger = (): Ledger => ({
  log: createLog(),
  generation: 0,
  pause: createPause(),
  room: new Room(),
});

/** Back to the beginning. Starts that are under way hold on to the old log: what they give back is nobody's. Tells nobody. */
export function clearLedger(ledger: Ledger): void {
  ledger.generation += 1;
  ledger.log = createLog();
  ledger.pause = createPause();
}
