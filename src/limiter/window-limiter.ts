import { type Clock, systemClock } from "../core/clock.ts";
import { createLedger } from "../limits/ledger.ts";
import { GateLimiter } from "./line-limiter.ts";
import { WindowGate } from "./window-gate.ts";

/** A window with no storage. */
export class WindowLimiter extends GateLimiter {
  constructor(max: number, windowMs: number, name: string, clock: Clock = systemClock) {
    super([new WindowGate(max, { name, clock, count: "weight", windowMs, ledger: createLedger() })], WindowLimiter);
  }
}
