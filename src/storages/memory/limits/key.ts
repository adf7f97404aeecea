import { type KeyState, newKeyState, NO_SLOTS, type SlotsInUse } from "../../../limits/key-state.ts";
import { type LimitRule, type Quota, quotaOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import { viewOf, windowWait } from "../../../limits/window.ts";
import type { InspectedKey } from "../../../storage/inspected-key.ts";
import type { MemoryLimitState } from "./limit-state.ts";

const UNTOUCHED: KeyState = Object.freeze(newKeyState());

/** One key of a limit at one instant: for one group, or for all. */
export class MemoryKey implements InspectedKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly quota: Quota;
  readonly now: number;
  /** Undefined: nothing is counted for the group. */
  limitState: MemoryLimitState | undefined;

  constructor(limitState: MemoryLimitState | undefined, rule: LimitRule, group: string | null, now: number) {
    this.rule = rule;
    this.group = group;
    this.quota = quotaOf(rule, group);
    this.now = now;
    this.limitState = limitState;
  }

  get keyState(): KeyState {
    return this.limitState === undefined ? UNTOUCHED : this.limitState.keyState;
  }

  get slots(): SlotsInUse {
    return this.limitState === undefined ? NO_SLOTS : this.limitState.slotsInUse(this.now);
  }

  get used(): number {
    return this.limitState === undefined ? 0 : this.limitState.used(this.quota, this.now);
  }

  windowWait(max: number, windowMs: number, weight: number): Wait {
    const log = this.limitState?.log;
    return log === undefined ? 0 : windowWait(log, viewOf(log, windowMs), max, this.now, weight);
  }
}
