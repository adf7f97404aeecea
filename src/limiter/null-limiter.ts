import { dateIn, systemClock } from "../core/clock.ts";
import { LineLimiter } from "./line-limiter.ts";

/** No limit at all: everything may start at once, and holds have no effect. */
export class NullLimiter extends LineLimiter {
  constructor() {
    super(() => [], NullLimiter);
  }

  async canProceed(): Promise<boolean> {
    return true;
  }

  async recordJobStart(): Promise<void> {}

  async recordJobCompletion(): Promise<void> {}

  /** Always now. */
  async getNextAvailableTime(): Promise<Date> {
    return dateIn(systemClock, 0);
  }

  async setNextAvailableTime(_date: Date): Promise<void> {}

  async clear(): Promise<void> {}
}
