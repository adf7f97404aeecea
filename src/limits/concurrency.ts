import { NEVER, type Wait, WHEN_RELEASED } from "./wait.ts";

/** Slots in use. */
export interface Slots {
  inUse: number;
}

export const createSlots = (): Slots => ({ inUse: 0 });

/** Does `weight` more fit under `max`? A `max` of 0 means paused: everything waits, nothing is impossible. */
export function slotsWait(slots: Slots, max: number, weight: number): Wait {
  if (weight > max && max > 0) return NEVER;
  return slots.inUse + weight <= max ? 0 : WHEN_RELEASED;
}

export function takeSlots(slots: Slots, weight: number): void {
  slots.inUse += weight;
}

/** Gives back `weight`; never below nothing. */
export function giveSlots(slots: Slots, weight: number): void {
  slots.inUse = Math.max(0, slots.inUse - weight);
}
