import type { Random } from "../core/random.ts";

/** How a delay grows: from `initial`, times `multiplier` each time, up to `max`. All in milliseconds, all checked before. */
export interface BackoffRule {
  readonly initial: number;
  readonly multiplier: number;
  readonly max: number;
}

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

  /** A start was granted or refused at the time `now`. */
  answered(granted: boolean, now: number): void {
    if (granted) this.granted();
    else this.refused(now);
  }

  refused(now: number): void {
    const { initial, multiplier, max } = this.#rule;
    this.#delay = this.#delay === undefined ? initial : Math.min(this.#delay * multiplier, max);
    // Plus up to as much again, so that calls that were refused together are not retried together.
    this.#until = now + this.#delay + this.#random() * this.#delay;
  }

  granted(): void {
    this.#delay = undefined;
    this.#until = Number.NEGATIVE_INFINITY;
  }

  /** `wait`, or what is left of the delay if that is longer. Without a wait there is no delay either. */
  extend(wait: number, now: number): number {
    return wait <= 0 ? 0 : Math.max(wait, this.#until - now);
  }
}
