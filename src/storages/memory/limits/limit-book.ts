import { LimitNotFoundError } from "../../../core/errors.ts";
import type { RateState } from "../../../limits/rate-state.ts";
import { RulesInForce } from "../../../limits/claim-rules.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import { ruleInForce, type StoredRule } from "../../../storage/stored-rules.ts";
import { Heap, NOWHERE } from "../heap.ts";
import { LimitHistory } from "./limit-history.ts";
import { MemoryKey } from "./key.ts";
import { MemoryLimitState } from "./limit-state.ts";

/** A limit state without slots in use that has to be kept for other reasons than time is looked at again after this. */
const LOOK_AGAIN_MS = 60_000;

/** A stored rule: as it is in force, and the limit states of its groups. */
interface Kept {
  readonly rule: LimitRule;
  readonly groups: Map<string | null, MemoryLimitState>;
}

/** The rules, and the limit states under their names and under those of claims. */
export class LimitBook {
  /** The rules in force, by name. Replaced, never changed. */
  inForce: readonly LimitRule[] = [];
  /** The same by queue and type. */
  byQueue = new RulesInForce([]);
  /** Does it matter to any of them how heavy a job is? */
  weighs = false;
  /** The rules as they were declared and changed, by name. */
  readonly stored = new Map<string, StoredRule>();
  /** The highest version that each owner of rules has declared. */
  readonly owners = new Map<string, number>();
  readonly history = new LimitHistory();
  readonly #kept = new Map<string, Kept>();
  /** The limit states for all jobs, by the names of rules and of claims. */
  readonly #general = new Map<string, MemoryLimitState>();
  /** Limit states of groups without slots in use, the one that may be deleted first in front. */
  readonly #resting = new Heap<MemoryLimitState>((a, b) => a.idleAt - b.idleAt);
  readonly #openGeneral: (name: string) => MemoryLimitState;

  /** `rateOf`: the state that `rates` keeps under a name. `becameAvailable` is called when `rates` returns something of it. */
  constructor(rateOf: (name: string) => RateState, becameAvailable: (limitState: MemoryLimitState) => void) {
    this.#openGeneral = (name) => {
      const limitState = new MemoryLimitState(name, null, rateOf(name));
      limitState.rate!.wakeUps.listen(() => becameAvailable(limitState));
      return limitState;
    };
  }

  rule(name: string): LimitRule | undefined {
    return this.#kept.get(name)?.rule;
  }

  /** Throws if there is none. */
  demand(name: string): { readonly stored: StoredRule; readonly rule: LimitRule } {
    const stored = this.stored.get(name);
    const rule = this.rule(name);
    if (stored === undefined || rule === undefined) throw new LimitNotFoundError(name);
    return { stored, rule };
  }

  write(stored: StoredRule): void {
    const { name } = stored.declared;
    const groups = this.#kept.get(name)?.groups ?? new Map<string | null, MemoryLimitState>();
    this.stored.set(name, stored);
    this.#kept.set(name, { rule: ruleInForce(stored), groups });
    this.#become();
  }

  /** Deletes a rule and its limit states. */
  erase(name: string): void {
    this.#general.get(name)?.forget();
    this.forgetGroups(name);
    this.stored.delete(name);
    this.#kept.delete(name);
    this.#become();
  }

  /** Deletes the limit states of groups: the rule is by other keys now, and the old values mean nothing to it. */
  forgetGroups(name: string): void {
    const groups = this.#kept.get(name)?.groups;
    for (const limitState of groups?.values() ?? []) {
      limitState.forget();
      if (limitState.slot !== NOWHERE) this.#resting.remove(limitState);
    }
    groups?.clear();
  }

  /**
   * The limit state of a rule, for a group or for all; undefined: the group has none yet. That for all is made at once, since starts may
   * have been counted through `rates` before any claim.
   */
  find({ name, byGroup }: LimitRule, group: string | null): MemoryLimitState | undefined {
    return byGroup ? this.#kept.get(name)?.groups.get(group) : this.general(name);
  }

  keyAt(rule: LimitRule, group: string | null, time: number): MemoryKey {
    return new MemoryKey(this.find(rule, group), rule, group, time);
  }

  /** The limit state of a rule for a group or for all, made on first use. */
  open(rule: LimitRule, group: string | null): MemoryLimitState {
    if (!rule.byGroup) return this.general(rule.name);
    const { groups } = this.#kept.get(rule.name)!;
    let limitState = groups.get(group);
    if (limitState === undefined) groups.set(group, (limitState = new MemoryLimitState(rule.name, group, undefined)));
    return limitState;
  }

  general(name: string): MemoryLimitState {
    let limitState = this.#general.get(name);
    if (limitState === undefined) this.#general.set(name, (limitState = this.#openGeneral(name)));
    return limitState;
  }

  /** The limit states of groups. */
  groups(name: string): ReadonlyMap<string | null, MemoryLimitState> {
    return this.#kept.get(name)!.groups;
  }

  /** All limit states under a name. */
  *limitStates(name: string): Iterable<MemoryLimitState> {
    const general = this.#general.get(name);
    if (general !== undefined) yield general;
    yield* this.#kept.get(name)?.groups.values() ?? [];
  }

  /** Plans the deletion of the limit state of a group, if it has no slots in use. */
  rest(limitState: MemoryLimitState, rule: LimitRule, time: number): void {
    if (limitState.rate !== undefined || limitState.slot !== NOWHERE || limitState.hasSlotsInUse) return;
    if (this.#kept.get(limitState.name)?.groups.get(limitState.group) !== limitState) return;
    limitState.idleAt = limitState.quietAt(rule, time);
    this.#resting.add(limitState);
  }

  /** Is there a group to delete? */
  hasIdle(time: number): boolean {
    return (this.#resting.first?.idleAt ?? Number.POSITIVE_INFINITY) <= time;
  }

  /** Deletes idle groups, and answers how many. `looks`: how many are checked at most. */
  prune(time: number, looks: number, isAwaited: (limitState: MemoryLimitState) => boolean): number {
    let pruned = 0;
    for (let look = 0; look < looks && this.hasIdle(time); look++) {
      const limitState = this.#resting.first!;
      const { rule, groups } = this.#kept.get(limitState.name)!;
      this.#resting.remove(limitState);
      if (!isAwaited(limitState) && limitState.isIdle(rule, time)) {
        groups.delete(limitState.group);
        pruned += 1;
      } else if (!limitState.hasSlotsInUse) {
        const quietAt = limitState.quietAt(rule, time);
        limitState.idleAt = quietAt > time ? quietAt : time + LOOK_AGAIN_MS;
        this.#resting.add(limitState);
      }
    }
    return pruned;
  }

  #become(): void {
    const rules = [...this.#kept.values()].map(({ rule }) => rule);
    this.inForce = rules.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.byQueue = new RulesInForce(this.inForce);
    this.weighs = rules.some(({ weight }) => weight !== null);
  }
}
