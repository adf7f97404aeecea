import { type BackoffRule, nextDelay, withJitter } from "../core/backoff.ts";
import type { Random } from "../core/random.ts";

/**
 * A delay that grows with every refusal in a row, and with every start that was recorded although it did not fit. The first
 * grant clears it. It lives in this process only.
 */
export class Backoff {
  readonly #rule: BackoffRule;
  readonly #random: Random;
  #delay: number | undefined;
  #until = Number.NEGATIVE_INFINITY;

  constructor(rule: BackoffRule, random: Random) {
    this.#rule = rule;
    this.#random = random;
  }

  refused(now: number): void {
    this.#delay = nextDelay(this.#rule, this.#delay);
    this.#until = now + withJitter(this.#delay, this.#random);
  }

  granted(): void {
    this.#delay = undefined;
    this.#until = Number.NEGATIVE_INFINITY;
  }

  /** How much of it is left. */
  remaining(now: number): number {
    return Math.max(0, this.#until - now);
  }
}
