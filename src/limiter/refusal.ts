import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Refusal } from "./limiter.ts";

/** The refusal for a request that does not wait. */
export function refusal(blockedBy: string, wait: Wait): Refusal {
  return {
    granted: false,
    blockedBy,
    retryInMs: wait === NEVER || wait === WHEN_RELEASED ? null : Math.max(0, wait),
    never: wait === NEVER,
  };
}
