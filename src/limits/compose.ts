import { NEVER, type Wait } from "./wait.ts";

/**
 * All or none: when do two limits grant the same start? What is available under a limit stays available while nothing
 * starts, so both grant it after the longer of the two waits; if one is `NEVER`, so is the result.
 * Any number of limits is this, folded.
 */
export function both(a: Wait, b: Wait): Wait {
  return a === NEVER || b === NEVER ? NEVER : Math.max(a, b);
}
