import { OptionsError } from "../core/errors.ts";
import type { Part } from "./part.ts";

/** The error for a weight that can never fit. `most`: the largest weight that can, if the part says so. */
export function impossible(part: Part, weight: number | undefined, most = part.capacity): OptionsError {
  return new OptionsError(
    part.name,
    "weight",
    weight,
    `at most ${most}, the most this limiter can ever grant`,
    part.hint,
  );
}
