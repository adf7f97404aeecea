import { LimitNotFoundError } from "../../../core/errors.ts";
import type { RateState } from "../../../limits/rate-state.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import { ruleInForce, type StoredRule } from "../../../storage/stored-rules.ts";
import { Heap, NOWHERE } from "../heap.ts";
import { LimitHistory } from "./limit-history.ts";
import { Tally } from "./tally.ts";

/** What is held by no job, but for other reasons than time cannot be forgotten, is looked at again after this. */
const LOOK_AGAIN_MS = 60_000;

/** A rule that is kept: as it is in force, and what is counted for each group. */
interface Kept {
  readonly rule: LimitRule;
  readonly groups: Map<string | null, Tally>;
}

/** The rules, and what is counted under them and under any other name. */
export class LimitBook {
  /** The rules in force, by name. Replaced, never changed. */
  inForce: readonly LimitRule[] = [];
  /** Does it matter to any of them how heavy a job is? */
  weighs = false;
  /** The rules as they were declared and changed, by name. */
  readonly stored = new Map<string, StoredRule>();
  /** The highest version that each owner of rules has declared. */
  readonly owners = new Map<string, number>();
  readonly history = new LimitHistory();
  readonly #kept = new Map<string, Kept>();
  /** What is counted for all: under the names of rules and of claims. */
  readonly #general = new Map<string, Tally>();
  /** Groups for which nothing is held, the one in front that may be forgotten first. */
  readonly #resting = new Heap<Tally>((a, b) => a.idleAt - b.idleAt);
  readonly #openGeneral: (name: string) => Tally;

  /** `ledger`: what is kept under a name. `roomAppeared` is called when somebody else gives something of it back. */
  constructor(ledger: (name: string) => RateState, roomAppeared: (tally: Tally) => void) {
    this.#openGeneral = (name) => {
      const tally = new Tally(name, null, ledger(name));
      tally.ledger!.wakeUps.listen(() => roomAppeared(tally));
      return tally;
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
    const groups = this.#kept.get(name)?.groups ?? new Map<string | null, Tally>();
    this.stored.set(name, stored);
    this.#kept.set(name, { rule: ruleInForce(stored), groups });
    this.#become();
  }

  /** Forgets a rule and all that was counted under it. */
  erase(name: string): void {
    for (const tally of this.tallies(name)) {
      tally.forget();
      if (tally.slot !== NOWHERE) this.#resting.remove(tally);
    }
    this.stored.delete(name);
    this.#kept.delete(name);
    this.#become();
  }

  /**
   * What is counted under a rule, for a group or for all; undefined: nothing yet for the group. What is counted for all may have
   * been counted through `rates`, before any claim.
   */
  find({ name, byGroup }: LimitRule, group: string | null): Tally | undefined {
    return byGroup ? this.#kept.get(name)?.groups.get(group) : this.general(name);
  }

  /** The same, made on first use. */
  open(rule: LimitRule, group: string | null): Tally {
    if (!rule.byGroup) return this.general(rule.name);
    const { groups } = this.#kept.get(rule.name)!;
    let tally = groups.get(group);
    if (tally === undefined) groups.set(group, (tally = new Tally(rule.name, group, undefined)));
    return tally;
  }

  general(name: string): Tally {
    let tally = this.#general.get(name);
    if (tally === undefined) this.#general.set(name, (tally = this.#openGeneral(name)));
    return tally;
  }

  /** What is counted for each group. */
  groups(name: string): ReadonlyMap<string | null, Tally> {
    return this.#kept.get(name)!.groups;
  }

  /** All that is counted under a name. */
  *tallies(name: string): Iterable<Tally> {
    const general = this.#general.get(name);
    if (general !== undefined) yield general;
    yield* this.#kept.get(name)?.groups.values() ?? [];
  }

  /** If nothing is held of it, it may be forgotten one day. */
  rest(tally: Tally, rule: LimitRule, time: number): void {
    if (tally.ledger !== undefined || tally.slot !== NOWHERE || tally.holding) return;
    if (this.#kept.get(tally.name)?.groups.get(tally.group) !== tally) return;
    tally.idleAt = tally.quietAt(rule, time);
    this.#resting.add(tally);
  }

  /** Is there a group that may be forgotten? */
  hasIdle(time: number): boolean {
    return (this.#resting.first?.idleAt ?? Number.POSITIVE_INFINITY) <= time;
  }

  /** Forgets groups for which nothing counts any more, after at most so many looks. Answers how many. */
  prune(time: number, looks: number, isAwaited: (tally: Tally) => boolean): number {
    let pruned = 0;
    for (let look = 0; look < looks && this.hasIdle(time); look++) {
      const tally = this.#resting.first!;
      const { rule, groups } = this.#kept.get(tally.name)!;
      this.#resting.remove(tally);
      if (!isAwaited(tally) && tally.isIdle(rule, time)) {
        groups.delete(tally.group);
        pruned += 1;
      } else if (!tally.holding) {
        const quietAt = tally.quietAt(rule, time);
        tally.idleAt = quietAt > time ? quietAt : time + LOOK_AGAIN_MS;
        this.#resting.add(tally);
      }
    }
    return pruned;
  }

  #become(): void {
    const rules = [...this.#kept.values()].map(({ rule }) => rule);
    this.inForce = rules.toSorted((a, b) => (a.name < b.name ? -1 : 1));
    this.weighs = rules.some(({ weight }) => weight !== null);
  }
}
