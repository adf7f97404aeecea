import type { Clock } from "../core/clock.ts";
import { GateLimiter } from "./line-limiter.ts";
import { RateGate } from "./rate-gate.ts";

/** A window with no storage. */
export class WindowLimiter extends GateLimiter {
  constructor(max: number, windowMs: number, name: string, clock: Clock) {
    super([new RateGate(max, { name, clock, windowMs })], WindowLimiter);
  }
}
