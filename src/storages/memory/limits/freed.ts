import type { RateState } from "../../../limits/rate-state.ts";
import { type LimitRule, quotaOf } from "../../../limits/rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import { availableOf, nextOf, type MemoryLimitState } from "./limit-state.ts";

/** How it stood with a limit before anything was given back. */
interface Before {
  readonly rule: LimitRule;
  readonly stood: Stood;
}

/** When one more fits; of what is weighed, also how much does, and how much is taken. */
interface Stood {
  readonly wait: Wait;
  readonly free: number;
  readonly taken: number;
}

/** What a step gave back. What counts is what is left of it when the step is over: it may have been taken again. */
export class Freed {
  readonly #before = new Map<MemoryLimitState, Before>();
  #ledgers = new Set<RateState>();
  #ruleFreed = false;

  /** Was anything noted? */
  get any(): boolean {
    return this.#ruleFreed || this.#before.size > 0;
  }

  /** Something of this is about to be given back. */
  note(limitState: MemoryLimitState, rule: LimitRule, time: number): void {
    if (this.#before.has(limitState)) return;
    this.#before.set(limitState, { rule, stood: standOf(limitState, rule, time) });
    if (limitState.ledger !== undefined) this.#ledgers.add(limitState.ledger);
  }

  /** Waiters of this log are notified when the step is over. */
  noteLedger(ledger: RateState): void {
    this.#ledgers.add(ledger);
  }

  /** A rule lets something start that it did not before, or may do so. */
  noteRule(): void {
    this.#ruleFreed = true;
  }

  /** The logs that had something given back, whose waiters are not notified yet. */
  ledgers(): Iterable<RateState> {
    const ledgers = this.#ledgers;
    if (ledgers.size > 0) this.#ledgers = new Set();
    return ledgers;
  }

  /**
   * Is a wake-up time earlier than a claim answered? What cannot start yet counts as well: a worker that waits for a release has no
   * wake-up time, and now there may be one.
   */
  isEarlier(inForce: (name: string) => LimitRule | undefined, time: number): boolean {
    let earlier = this.#ruleFreed;
    this.#ruleFreed = false;
    for (const [limitState, { rule, stood }] of this.#before) {
      if (earlier) break;
      const now = inForce(limitState.name) ?? rule;
      const { wait, free, taken } = standOf(limitState, now, time);
      earlier = wait < stood.wait || (now.weight !== null && (free > stood.free || taken < stood.taken));
    }
    this.#before.clear();
    return earlier;
  }
}

function standOf(limitState: MemoryLimitState, rule: LimitRule, time: number): Stood {
  const { group } = limitState;
  const { wait } = nextOf(limitState, rule, group, time);
  const told = wait === NEVER ? WHEN_RELEASED : wait;
  if (rule.weight === null) return { wait: told, free: 0, taken: 0 };
  const quota = quotaOf(rule, group);
  const taken = quota.max === null ? limitState.held(time).slots : limitState.used(quota, time);
  return { wait: told, free: availableOf(limitState, rule, group, time), taken };
}
