import { both } from "../limits/compose.ts";
import { type Hold, holdWait } from "../limits/hold.ts";
import { clearRateState, createRateState, type RateState } from "../limits/rate-state.ts";
import type { Wait } from "../limits/wait.ts";
import {
  callStart,
  cancelStart,
  grantStart,
  recordStart,
  type StartEntry,
  type StartLog,
  viewOf,
  windowWait,
} from "../limits/window.ts";
import { Blocked } from "./blocked.ts";
import type { LimiterGate } from "./gate.ts";
import { COUNT_HINT } from "./settings.ts";
import { WindowGate, type WindowSettings } from "./window-gate.ts";

/** The window of a limiter class. Gates over the same state count the same starts, each by its own rule. */
export class RateGate extends WindowGate implements LimiterGate {
  override readonly hint = COUNT_HINT;
  readonly #state: RateState;

  /** `blocked`: where its callers wait. Default: at this gate alone. */
  constructor(max: number, settings: WindowSettings, state = createRateState(), blocked = new Blocked(state.wakeUps)) {
    super(max, settings, state.log, blocked);
    this.#state = state;
  }

  override get state(): RateState {
    return this.#state;
  }

  get hold(): Hold {
    return this.#state.hold;
  }

  /** Changes the maximum. Waiters that fit now start at once. */
  resize(max: number): void {
    const grows = max > this.max;
    this.max = max;
    if (grows) this.wakeUps.notify();
  }

  override wait(now: number, weight: number): Wait {
    const wait = windowWait(this.#look(), this.view, this.max, now, this.units(weight));
    return both(wait, holdWait(this.#state.hold, now));
  }

  override take(now: number, weight: number): StartEntry {
    return grantStart(this.#look(), now, this.units(weight));
  }

  override called(entry: StartEntry): void {
    callStart(entry, this.clock.now());
  }

  override cancel(entry: StartEntry): void {
    cancelStart(entry);
    this.wakeUps.notify();
  }

  recordStart(): void {
    recordStart(this.#look(), this.clock.now(), this.units(1));
  }

  reset(): void {
    clearRateState(this.#state);
  }

  /** The current log. Where the state was reset, the window is that of its new log. */
  #look(): StartLog {
    const { log } = this.#state;
    if (log !== this.log) {
      this.log = log;
      this.view = viewOf(log, this.view.windowMs);
    }
    return log;
  }
}
