import {
  cancelStart,
  createLog,
  enterStart,
  reserveStart,
  settleStart,
  type StartEntry,
  type StartLog,
  viewOf,
  type WindowView,
  windowWait,
} from "../limits/start-log.ts";
import type { Wait } from "../limits/wait.ts";
import type { Blocked } from "./blocked.ts";
import { Gate, type GateSettings } from "./gate.ts";

export interface WindowSettings extends GateSettings {
  readonly windowMs: number;
}

/** At most so much in any window. */
export class WindowGate extends Gate<StartEntry> {
  protected max: number;
  protected log: StartLog;
  protected view: WindowView;

  constructor(max: number, settings: WindowSettings, log = createLog(), blocked?: Blocked) {
    super(settings, blocked);
    this.max = max;
    this.log = log;
    this.view = viewOf(log, settings.windowMs);
  }

  get capacity(): number {
    return this.max;
  }

  wait(now: number, weight: number): Wait {
    return windowWait(this.log, this.view, this.max, now, this.units(weight));
  }

  take(_now: number, weight: number): StartEntry {
    return reserveStart(this.log, this.units(weight));
  }

  override called(entry: StartEntry): void {
    enterStart(entry, this.clock.now());
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
}
