import type { Clock } from "../core/clock.ts";
import { clearRateState, createRateState, type RateState } from "../limits/rate-state.ts";
import type { Hold } from "../limits/hold.ts";
import type { Wait } from "../limits/wait.ts";
import {
  callStart,
  cancelStart,
  grantStart,
  recordStart,
  settleStart,
  type StartEntry,
  type StartLog,
  viewOf,
  type WindowView,
  windowWait,
} from "../limits/window.ts";
import type { Backoff } from "./backoff.ts";
import { Blocked } from "./blocked.ts";
import { Gate, type GateSettings } from "./gate.ts";

export interface WindowGateSettings extends GateSettings {
  readonly windowMs: number;
  readonly state: RateState;
  readonly backoff?: Backoff;
  /** Where its callers wait. Default: at this gate alone. */
  readonly blocked?: Blocked;
}

/** A window without a storage, whose starts only this gate counts. */
export function ownWindow(max: number, windowMs: number, name: string, clock: Clock): WindowGate {
  return new WindowGate(max, { name, clock, count: "weight", windowMs, state: createRateState() });
}

/** A log, and one window's view of it. */
interface Look {
  readonly log: StartLog;
  readonly view: WindowView;
}

const lookAt = (log: StartLog, windowMs: number): Look => ({ log, view: viewOf(log, windowMs) });

/** At most so much in any window. Gates over the same state count the same starts, each by its own rule. */
export class WindowGate extends Gate<StartEntry> {
  readonly timed = true;
  readonly #windowMs: number;
  readonly #state: RateState;
  readonly #backoff: Backoff | undefined;
  #max: number;
  #seen: Look;

  constructor(max: number, settings: WindowGateSettings) {
    super(settings, settings.blocked ?? new Blocked(settings.state.wakeUps));
    this.#max = max;
    this.#windowMs = settings.windowMs;
    this.#state = settings.state;
    this.#seen = lookAt(settings.state.log, settings.windowMs);
    this.#backoff = settings.backoff;
  }

  get capacity(): number {
    return this.#max;
  }

  override get state(): RateState {
    return this.#state;
  }

  /** Changes the maximum. Waiters that fit now start at once. */
  resize(max: number): void {
    const grows = max > this.#max;
    this.setMax(max);
    if (grows) this.wakeUps.notify();
  }

  /** The same, without a wake-up. */
  protected setMax(max: number): void {
    this.#max = max;
  }

  take(now: number, weight: number): StartEntry {
    this.#backoff?.granted();
    return grantStart(this.#look().log, now, this.units(weight));
  }

  override called(entry: StartEntry, now: number): void {
    callStart(entry, now);
  }

  cancel(entry: StartEntry): void {
    cancelStart(entry);
    this.wakeUps.notify();
  }

  override settle(entry: StartEntry, used: number): void {
    if (this.counts === "starts") return;
    settleStart(entry, this.clock.now(), used);
    this.wakeUps.notify();
  }

  override recordStart(): void {
    const now = this.clock.now();
    const full = this.wait(now, 1) !== 0;
    recordStart(this.#look().log, now, this.units(1));
    if (full) this.refused(now);
    else this.#backoff?.granted();
  }

  override refused(now: number): void {
    this.#backoff?.refused(now);
  }

  override nextAvailableIn(now: number): number {
    const wait = super.nextAvailableIn(now);
    return wait === 0 ? 0 : Math.max(wait, this.#backoff?.remaining(now) ?? 0);
  }

  reset(): void {
    this.#backoff?.granted();
    clearRateState(this.#state);
  }

  protected get currentHold(): Hold {
    return this.#state.hold;
  }

  protected fits(now: number, units: number): Wait {
    const { log, view } = this.#look();
    return windowWait(log, view, this.#max, now, units);
  }

  /** The current log, and the view of this window. */
  #look(): Look {
    if (this.#seen.log !== this.#state.log) this.#seen = lookAt(this.#state.log, this.#windowMs);
    return this.#seen;
  }
}
