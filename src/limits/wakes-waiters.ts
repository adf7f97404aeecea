import type { LimitRule } from "./rule.ts";
import type { Wait } from "./wait.ts";

/** When one more start fits under a limit state; where the limit weighs starts, also how much fits, and how much is in use. */
export interface Availability {
  readonly wait: Wait;
  readonly available: number;
  readonly used: number;
}

/** Did one more fit before? Then what is returned matters only to heavier starts, and nothing else waits for a slot any more. */
export const fittedBefore = ({ weight }: LimitRule, { wait }: Pick<Availability, "wait">): boolean =>
  wait === 0 && weight === null;

/**
 * Does what a step returned wake up workers and permits that wait? Asked only of limit states that refused something since the latest
 * wake-up, as the states were before the step returned it and are after all of the step. What cannot start yet counts as well: a
 * worker that waits for a release has no wake-up time, and now there may be one.
 *
 * What the same step refuses after that waits for the next return: this wake-up may come before the answer to its claim.
 */
export function wakesWaiters(rule: LimitRule, before: Availability, after: () => Availability): boolean {
  if (fittedBefore(rule, before)) return false;
  const { weight } = rule;
  // Heavier starts have to look after every change.
  const { wait, available, used } = after();
  return wait < before.wait || (weight !== null && (available > before.available || used < before.used));
}
