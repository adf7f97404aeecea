import { OptionsError } from "../core/errors.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Refusal } from "./limiter.ts";
import type { Part } from "./part.ts";
import type { Weights } from "./taking.ts";

/** The answer to somebody who does not want to wait. */
export function refusal(blockedBy: string, wait: Wait): Refusal {
  return {
    granted: false,
    blockedBy,
    retryInMs: wait === NEVER || wait === WHEN_RELEASED ? null : Math.max(0, wait),
    never: wait === NEVER,
  };
}

/** What to tell somebody who asks for more than there can ever be. */
export function impossible(part: Part, weights: Weights): OptionsError {
  const weight = typeof weights === "number" ? weights : Math.max(...weights);
  return new OptionsError(
    part.name,
    "weight",
    weight,
    `at most ${part.capacity}, the most this limiter can ever grant`,
    'a limiter that is to count calls and not their weight takes `count: "starts"`',
  );
}
