import type { RateState } from "../../../limits/rate-state.ts";
import { type LimitRule, ONE } from "../../../limits/rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import { availableOf, decideFor } from "../../../storage/inspected-key.ts";
import { MemoryKey } from "./key.ts";
import type { MemoryLimitState } from "./limit-state.ts";

/** When one more fits; under a limit that weighs, also how much does, and how much is in use. */
interface Availability {
  readonly rule: LimitRule;
  readonly wait: Wait;
  readonly available: number;
  readonly used: number;
}

/** The limits that a step returned something of. Only what is still available when the step is over counts: the step may charge it again. */
export class Freed {
  readonly #before = new Map<MemoryLimitState, Availability>();
  #rates = new Set<RateState>();
  #ruleFreed = false;

  /** Was anything noted? */
  get any(): boolean {
    return this.#ruleFreed || this.#before.size > 0;
  }

  /** The step is about to return something of this limit. */
  note(limitState: MemoryLimitState, rule: LimitRule, time: number): void {
    if (this.#before.has(limitState)) return;
    this.#before.set(limitState, availabilityOf(limitState, rule, time));
    if (limitState.rate !== undefined) this.#rates.add(limitState.rate);
  }

  /** Waiters of this rate are notified when the step is over. */
  noteRate(rate: RateState): void {
    this.#rates.add(rate);
  }

  /** A rule may grant something that it refused before. */
  noteRule(): void {
    this.#ruleFreed = true;
  }

  /** The rates that the step returned something of, and whose waiters are not notified yet. */
  rates(): Iterable<RateState> {
    const rates = this.#rates;
    if (rates.size > 0) this.#rates = new Set();
    return rates;
  }

  /**
   * Is a wake-up time earlier than a claim answered? What cannot start yet counts as well: a worker that waits for a release has no
   * wake-up time, and now there may be one.
   */
  isEarlier(inForce: (name: string) => LimitRule | undefined, time: number): boolean {
    let earlier = this.#ruleFreed;
    this.#ruleFreed = false;
    for (const [limitState, before] of this.#before) {
      if (earlier) break;
      // Nothing was refused since the latest wake-up, so nothing waits for it.
      if (!limitState.awaited) continue;
      const rule = inForce(limitState.name) ?? before.rule;
      // Where one more fitted before, what was returned matters only to heavier jobs.
      if (before.wait === 0 && rule.weight === null) continue;
      const { wait, available, used } = availabilityOf(limitState, rule, time);
      earlier = wait < before.wait || (rule.weight !== null && (available > before.available || used < before.used));
      if (earlier) limitState.awaited = false;
    }
    this.#before.clear();
    return earlier;
  }
}

function availabilityOf(limitState: MemoryLimitState, rule: LimitRule, time: number): Availability {
  const key = new MemoryKey(limitState, rule, limitState.group, time);
  const next = decideFor(key, ONE).wait;
  const wait = next === NEVER ? WHEN_RELEASED : next;
  if (rule.weight === null) return { rule, wait, available: 0, used: 0 };
  return { rule, wait, available: availableOf(key), used: key.quota.max === null ? key.slots.slots : key.used };
}
