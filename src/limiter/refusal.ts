import { OptionsError } from "../core/errors.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Refusal } from "./limiter.ts";
import type { Part } from "./part.ts";

/** The refusal for a request that does not wait. */
export function refusal(blockedBy: string, wait: Wait): Refusal {
  return {
    granted: false,
    blockedBy,
    retryInMs: wait === NEVER || wait === WHEN_RELEASED ? null : Math.max(0, wait),
    never: wait === NEVER,
  };
}

/** The error for a request that waits, with a weight that can never fit. `most`: the largest weight that can, if the part says so. */
export function impossible(part: Part, weight: number | undefined, most = part.capacity): OptionsError {
  return new OptionsError(
    part.name,
    "weight",
    weight,
    `at most ${most}, the most this limiter can ever grant`,
    part.hint,
  );
}
