import type { RateState } from "../../../limits/rate-state.ts";
import { type LimitRule, ONE } from "../../../limits/rule.ts";
import { type Availability, fittedBefore, wakesWaiters } from "../../../limits/wakes-waiters.ts";
import { NEVER, WHEN_RELEASED } from "../../../limits/wait.ts";
import { availableOf, decideFor } from "../../../storage/inspected-key.ts";
import { MemoryKey } from "./key.ts";
import type { MemoryLimitState } from "./limit-state.ts";

/** A limit state before the step returned anything of it. */
interface Before extends Availability {
  readonly rule: LimitRule;
  readonly time: number;
}

/** The limits that a step returned something of. Only what is still available when the step is over counts: the step may charge it again. */
export class Freed {
  readonly #before = new Map<MemoryLimitState, Before>();
  #rates = new Set<RateState>();
  #ruleFreed = false;

  /** Was anything noted? */
  get any(): boolean {
    return this.#ruleFreed || this.#before.size > 0 || this.#rates.size > 0;
  }

  /** The step is about to return something of this limit. */
  note(limitState: MemoryLimitState, rule: LimitRule, time: number): void {
    if (limitState.rate !== undefined) this.#rates.add(limitState.rate);
    if (!limitState.awaited || this.#before.has(limitState)) return;
    if (limitState.awaitedByBrought) {
      limitState.wokeUp();
      this.noteRule();
      return;
    }
    this.#before.set(limitState, { rule, time, ...availabilityOf(limitState, rule, time) });
    const { quota, slots } = new MemoryKey(limitState, rule, limitState.group, time);
    const hasSlot = quota.concurrency === null || slots.slots + 1 <= quota.concurrency;
    if (fittedBefore(rule, { wait: hasSlot ? 0 : WHEN_RELEASED })) limitState.starved = undefined;
    // From now on only what the step itself refuses counts, if it wakes up what waits.
    limitState.awaited = false;
  }

  /** Did the step return something of this limit, for which others wait? */
  has(limitState: MemoryLimitState): boolean {
    return this.#before.has(limitState);
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

  /** Does it wake up all workers? By the instant of the step: what became available because time passes wakes up none. */
  wakesWaiters(inForce: (name: string) => LimitRule | undefined): boolean {
    let wakes = this.#ruleFreed;
    this.#ruleFreed = false;
    for (const [limitState, before] of this.#before) {
      const rule = inForce(limitState.name) ?? before.rule;
      const matters = !wakes || limitState.starved !== undefined;
      if (matters && wakesWaiters(rule, before, () => availabilityOf(limitState, rule, before.time))) {
        wakes = true;
        limitState.starved = undefined;
      } else limitState.awaited = true;
    }
    this.#before.clear();
    return wakes;
  }
}

function availabilityOf(limitState: MemoryLimitState, rule: LimitRule, time: number): Availability {
  const key = new MemoryKey(limitState, rule, limitState.group, time);
  const next = decideFor(key, ONE).wait;
  const wait = next === NEVER ? WHEN_RELEASED : next;
  if (rule.weight === null) return { wait, available: 0, used: 0 };
  return { wait, available: availableOf(key), used: key.quota.max === null ? key.slots.slots : key.used };
}
