import { NEVER, type Wait } from "./wait.ts";

/**
 * All or none: when do two limits let the same start happen? A limit that has room keeps it while nobody takes
 * anything, so both have room after the longer of the two waits; and if one of them never will, neither matters.
 * Any number of limits is this, folded.
 */
export function both(a: Wait, b: Wait): Wait {
  return a === NEVER || b === NEVER ? NEVER : Math.max(a, b);
}
