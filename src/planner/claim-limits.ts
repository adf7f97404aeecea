import type { JobKeys } from "../core/job.ts";
import type { ClaimRules } from "../limits/claim-rules.ts";
import { type Charge, chargeOf, type Keyed, labelOf, type LimitRule, ONE, valueOf } from "../limits/rule.ts";
import { NEVER, type Wait } from "../limits/wait.ts";
import { type HeavyHead, waitForHeads } from "./heavy-heads.ts";

/** One key of a limit during one claim: for one group, or for all. The charges of the claim count at once. */
export interface LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  /**
   * When the charge fits, at the instant of the claim and with its charges so far. `priority`: that of the job that would start, if
   * there is one. A job that does not come before a heavy job that waits for the key waits with it.
   */
  wait(charge: Charge, priority?: number): Wait;
  /** Of a key that weighs jobs: since when the job that would start waits for it as a heavy head (`heavy-heads.ts`); infinity: it does not. */
  readonly since: number;
  /** Of a key that weighs jobs: how long the job that would start waits for heavy heads of its queue and type; 0: for none. */
  waitForOwnHeads(priority: number): Wait;
  take(charge: Charge): void;
}

/** The charge of a start under one key. */
export interface KeyCharge {
  readonly key: LimitKey;
  readonly charge: Charge;
}

/** The key that refused a job, the wait, and what the start would have charged. */
export interface Refused {
  readonly by: LimitKey;
  readonly wait: Wait;
  readonly charge: Charge;
}

/** May a job start? If not, the key with the longest wait. */
export type Decision =
  | { readonly granted: true; readonly charges: readonly KeyCharge[] }
  | ({ readonly granted: false } & Refused);

/** Does a refusal of the limit concern one group only? Under a limit that is paused no group starts anything. */
export const isForOneGroup = ({ byGroup, paused }: LimitRule): boolean => byGroup && !paused;

/** The display name of a key that refuses: of a limit that is paused, the name of the limit. */
export const labelOfKey = ({ rule, group }: Pick<LimitKey, "rule" | "group">): string =>
  labelOf(rule.name, isForOneGroup(rule) ? group : null);

const sinceOf = (key: LimitKey): number => (key.rule.weight === null ? Number.POSITIVE_INFINITY : key.since);

/** What tells heads of one queue apart. */
interface OfHead {
  readonly type: string;
  readonly priority: number;
}

/** The limits of a type in one queue. */
interface OfType {
  readonly general: readonly LimitKey[];
  /** The keys that close the whole type: `general`, and one of each limit by group that is paused. */
  readonly closing: readonly LimitKey[];
  readonly perGroup: readonly LimitRule[];
  /** Those of `perGroup` that refuse all jobs of a lane alike. */
  readonly blocking: readonly LimitRule[];
  /** Does it matter how heavy a job is? */
  readonly weighs: boolean;
  /** Charges of jobs without weights, by the job's keys or else its group; null where no limit of the type is by these. */
  readonly charges: Map<string | JobKeys | null, readonly KeyCharge[]>;
}

/**
 * The limits that the jobs of one claim run under. A start takes all of its limits or none.
 *
 * A later job does not pass an earlier one that waits for a limit: when the head of a type does not fit under a limit that is not
 * per group, the limit is closed for the rest of the claim, but for heavy heads that it refused before. So a heavy job waits for one
 * window at the most, however many light ones there are.
 */
export class ClaimLimits {
  readonly #rules: ClaimRules;
  readonly #keyOf: (rule: LimitRule, group: string | null) => LimitKey;
  readonly #types = new Map<string, OfType>();
  /** The same by list of rules: types under the same rules have one. */
  readonly #kinds = new Map<readonly LimitRule[], OfType>();
  readonly #keys = new Map<LimitRule, Map<string | null, LimitKey>>();
  /** Heads of this claim that wait for a key, as if each had reserved it from now on. */
  readonly #closed = new Map<LimitKey, (HeavyHead & OfHead & { until: Wait })[]>();

  /** `keyOf` is called once for each limit and group. */
  constructor(rules: ClaimRules, keyOf: (rule: LimitRule, group: string | null) => LimitKey) {
    this.#rules = rules;
    this.#keyOf = keyOf;
  }

  /** Does it matter how heavy jobs of this type are? */
  weighs(type: string): boolean {
    return this.#of(type).weighs;
  }

  /** The same for all types that run under the same limits, and for no others. */
  kindOf(type: string): unknown {
    return this.#of(type);
  }

  /**
   * May a job of this type, group, keys, weights and priority start now? Charges nothing. Jobs of one lane share one `keys` object;
   * jobs of another lane have another one.
   */
  ask(type: string, keyed: Keyed, weights: Readonly<Record<string, number>> | null, priority: number): Decision {
    const charges = this.#chargesOf(type, keyed, weights);
    let last: Refused | undefined;
    for (const { key: by, charge } of charges) {
      const own = by.wait(charge, priority);
      if (own === NEVER) return { granted: false, by, wait: own, charge };
      const closed = this.#closed.get(by);
      const wait = closed ? Math.max(own, waitForHeads(closed, { id: 1, priority, since: sinceOf(by) }, 0)) : own;
      // A job is not too heavy for a key, if one that does not weigh refuses it for as long.
      const isPlainer = wait === last?.wait && by.rule.weight === null && last.by.rule.weight !== null;
      if (wait > (last?.wait ?? 0) || isPlainer) last = { by, wait, charge };
    }
    return last === undefined ? { granted: true, charges } : { granted: false, ...last };
  }

  /** Of the keys by group that refuse every job of the lane, whatever it weighs, the one with the longest wait. */
  blocker(type: string, keyed: Keyed): Refused | undefined {
    return lastOf(this.#of(type).blocking.map((rule) => this.#key(rule, valueOf(rule, keyed))));
  }

  /** The start happens. */
  take(charges: readonly KeyCharge[]): void {
    for (const { key, charge } of charges) key.take(charge);
  }

  /**
   * The head that asked last waits so long for this key: for the rest of the claim no job of its priority or a lower one starts under it,
   * but for heavy heads that the key refused before.
   */
  close(key: LimitKey, wait: Wait, { type, priority }: OfHead): void {
    if (wait === 0) return;
    const since = sinceOf(key);
    const heads = this.#closed.get(key) ?? [];
    this.#closed.set(key, heads);
    const last = heads.at(-1);
    if (last?.priority === priority && last.since === since && last.type === type)
      last.until = Math.max(last.until, wait);
    else heads.push({ id: 0, type, priority, since, until: wait });
  }

  /** How long a job that is no heavy head of the key waits for those of its queue and type; 0: for none, or it is one. */
  waitForOwnHeads(key: LimitKey, { type, priority }: OfHead): Wait {
    if (sinceOf(key) !== Number.POSITIVE_INFINITY) return 0;
    const own = this.#closed.get(key)?.filter((head) => head.type === type) ?? [];
    const asking = { id: 1, priority, since: Number.POSITIVE_INFINITY };
    return Math.max(key.waitForOwnHeads(priority), waitForHeads(own, asking, 0));
  }

  /** When the limits that close this type as a whole grant a start that counts for one; and the key with the longest wait. */
  earliest(type: string): Refused | { readonly wait: 0; readonly by: null } {
    return lastOf(this.#of(type).closing) ?? { wait: 0, by: null };
  }

  #chargesOf(type: string, keyed: Keyed, weights: Readonly<Record<string, number>> | null): readonly KeyCharge[] {
    const { general, perGroup, weighs, charges: known } = this.#of(type);
    const counted = perGroup.length === 0 ? null : (keyed.keys ?? keyed.group);
    const before = weighs ? undefined : known.get(counted);
    if (before !== undefined) return before;
    const keys =
      perGroup.length === 0 ? general : [...general, ...perGroup.map((rule) => this.#key(rule, valueOf(rule, keyed)))];
    const charges = keys.map((key): KeyCharge => ({ key, charge: chargeOf(key.rule, weights) }));
    // No limit of the type weighs jobs, so the charges do not depend on the weights.
    if (!weighs) known.set(counted, charges);
    return charges;
  }

  #of(type: string): OfType {
    let found = this.#types.get(type);
    if (found === undefined) {
      const rules = this.#rules.of(type);
      found = this.#kinds.get(rules);
      if (found === undefined) this.#kinds.set(rules, (found = this.#under(rules)));
      this.#types.set(type, found);
    }
    return found;
  }

  #under(rules: readonly LimitRule[]): OfType {
    const general = rules.filter(({ byGroup }) => !byGroup).map((rule) => this.#key(rule, null));
    const paused = rules.filter(({ byGroup, paused: isPaused }) => byGroup && isPaused);
    return {
      general,
      closing: paused.length === 0 ? general : [...general, ...paused.map((rule) => this.#key(rule, null))],
      perGroup: rules.filter(({ byGroup }) => byGroup),
      blocking: rules.filter((rule) => isForOneGroup(rule) && rule.weight === null),
      weighs: rules.some(({ weight }) => weight !== null),
      charges: new Map(),
    };
  }

  #key(rule: LimitRule, group: string | null): LimitKey {
    let groups = this.#keys.get(rule);
    if (groups === undefined) this.#keys.set(rule, (groups = new Map()));
    let key = groups.get(group);
    if (key === undefined) groups.set(group, (key = this.#keyOf(rule, group)));
    return key;
  }
}

/** Of the keys that refuse a start that counts for one, the one with the longest wait. */
function lastOf(keys: readonly LimitKey[]): Refused | undefined {
  let last: Refused | undefined;
  for (const by of keys) {
    const wait = by.wait(ONE);
    if (wait > (last?.wait ?? 0)) last = { by, wait, charge: ONE };
  }
  return last;
}
