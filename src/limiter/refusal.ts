import { OptionsError } from "../core/errors.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Refusal } from "./limiter.ts";
import type { Part } from "./part.ts";
import type { Weights } from "./charging.ts";

/** The refusal for a request that does not wait. */
export function refusal(blockedBy: string, wait: Wait): Refusal {
  return {
    granted: false,
    blockedBy,
    retryInMs: wait === NEVER || wait === WHEN_RELEASED ? null : Math.max(0, wait),
    never: wait === NEVER,
  };
}

/** The error for a weight that can never fit. `most`: the largest weight that can, if the part says so. */
export function impossible(part: Part, weights: Weights, most?: number): OptionsError {
  const said = typeof weights === "number" ? [weights] : weights.filter((weight) => weight !== undefined);
  return new OptionsError(
    part.name,
    "weight",
    said.length === 0 ? undefined : Math.max(...said),
    `at most ${most ?? part.capacity}, the most this limiter can ever grant`,
    most === undefined ? 'a limiter that is to count calls and not their weight takes `count: "starts"`' : "",
  );
}
