import type { JobKeys } from "../core/job.ts";
import { applies, type Charge, chargeOf, type Keyed, type LimitRule, valueOf } from "../limits/rule.ts";
import { NEVER, type Wait } from "../limits/wait.ts";

/** One limit as one claim sees it: for one group, or for all. What the claim takes is counted at once. */
export interface LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  /**
   * When does this fit? Answers for the instant of the claim, with all that it has taken so far. `priority`: that of the job
   * which asks, if one does; whoever is not before a job that waits for the limit already has to wait with it.
   */
  wait(charge: Charge, priority?: number): Wait;
  take(charge: Charge): void;
}

/** What a start takes of one limit. */
export interface KeyCharge {
  readonly key: LimitKey;
  readonly charge: Charge;
}

/** May a job start? If not, what is in its way the longest. */
export type Decision =
  | { readonly granted: true; readonly charges: readonly KeyCharge[] }
  | { readonly granted: false; readonly by: LimitKey; readonly wait: Wait; readonly charge: Charge };

/** The limits of one type in one queue. */
interface OfType {
  readonly general: readonly LimitKey[];
  readonly perGroup: readonly LimitRule[];
  /** Does it matter how heavy a job is? */
  readonly weighs: boolean;
  /** What a job that weighs nothing in particular takes, by its keys or else its group; of types without limits by those, under null. */
  readonly charges: Map<string | JobKeys | null, readonly KeyCharge[]>;
}

/**
 * The limits that the jobs of one claim run under. A start takes all of its limits or none.
 *
 * Nobody passes a job that came first and waits for a limit: when the head of a type does not fit into a limit that is not
 * per group, the limit is closed for whatever comes later in the claim. So a heavy job waits for one window at the most,
 * however many light ones there are.
 */
export class ClaimLimits {
  readonly #rules: readonly LimitRule[];
  readonly #queue: string;
  readonly #keyOf: (rule: LimitRule, group: string | null) => LimitKey;
  readonly #types = new Map<string, OfType>();
  readonly #keys = new Map<LimitRule, Map<string | null, LimitKey>>();
  /** Limits that a head waits for, and how long. */
  readonly #closed = new Map<LimitKey, Wait>();

  /** `rules`: those that are in force. `keyOf` is asked once for each limit and group. */
  constructor(rules: readonly LimitRule[], queue: string, keyOf: (rule: LimitRule, group: string | null) => LimitKey) {
    this.#queue = queue;
    this.#rules = rules.filter(({ queues }) => queues === null || queues.includes(queue));
    this.#keyOf = keyOf;
  }

  /** Does any rule apply to jobs of this type? */
  limits(type: string): boolean {
    const { general, perGroup } = this.#of(type);
    return general.length > 0 || perGroup.length > 0;
  }

  /** Does it matter how heavy jobs of this type are? */
  weighs(type: string): boolean {
    return this.#of(type).weighs;
  }

  /**
   * May a job of this type, group, keys, weights and priority start now? Takes nothing. Jobs of one lane have the same object of
   * keys, and those of others have another one.
   */
  ask(type: string, keyed: Keyed, weights: Readonly<Record<string, number>> | null, priority: number): Decision {
    const charges = this.#chargesOf(type, keyed, weights);
    let by: KeyCharge | undefined;
    let longest: Wait = 0;
    for (const charged of charges) {
      const { key, charge } = charged;
      const own = key.wait(charge, priority);
      if (own === NEVER) return { granted: false, by: key, wait: own, charge };
      // Types are closed as a whole; those of a group are met here.
      const closed = key.rule.byGroup && this.#closed.size > 0 ? (this.#closed.get(key) ?? 0) : 0;
      const wait = closed > own ? closed : own;
      if (wait <= longest) continue;
      longest = wait;
      by = charged;
    }
    if (by === undefined) return { granted: true, charges };
    return { granted: false, by: by.key, wait: longest, charge: by.charge };
  }

  /** The start happens. */
  take(charges: readonly KeyCharge[]): void {
    for (const { key, charge } of charges) key.take(charge);
  }

  /** A head waits so long for this limit, for its group: from now on none of the group takes from it, in this claim. */
  close(key: LimitKey, wait: Wait): void {
    this.#closed.set(key, wait);
  }

  /** When the limits of this type that are not per group would let a start happen that counts for one; and what is in its way. */
  earliest(type: string): { readonly wait: Wait; readonly by: LimitKey | null } {
    let wait: Wait = 0;
    let by: LimitKey | null = null;
    for (const key of this.#of(type).general) {
      const own = key.wait({ weight: 1, slots: 1 });
      if (own === 0 || (by !== null && own <= wait)) continue;
      wait = own;
      by = key;
    }
    return { wait, by };
  }

  #chargesOf(type: string, keyed: Keyed, weights: Readonly<Record<string, number>> | null): readonly KeyCharge[] {
    const { general, perGroup, weighs, charges: known } = this.#of(type);
    const counted = perGroup.length === 0 ? null : (keyed.keys ?? keyed.group);
    const before = weighs ? undefined : known.get(counted);
    if (before !== undefined) return before;
    const keys = perGroup.length === 0 ? general : [...general, ...perGroup.map((rule) => this.#key(rule, valueOf(rule, keyed)))];
    const charges = keys.map((key): KeyCharge => ({ key, charge: chargeOf(key.rule, weights) }));
    // Whatever a job says that nobody weighs, it takes the same as the others.
    if (!weighs) known.set(counted, charges);
    return charges;
  }

  #of(type: string): OfType {
    let found = this.#types.get(type);
    if (found === undefined) {
      const rules = this.#rules.filter((rule) => applies(rule, this.#queue, type));
      found = {
        general: rules.filter(({ byGroup }) => !byGroup).map((rule) => this.#key(rule, null)),
        perGroup: rules.filter(({ byGroup }) => byGroup),
        weighs: rules.some(({ weight }) => weight !== null),
        charges: new Map(),
      };
      this.#types.set(type, found);
    }
    return found;
  }

  #key(rule: LimitRule, group: string | null): LimitKey {
    let groups = this.#keys.get(rule);
    if (groups === undefined) this.#keys.set(rule, (groups = new Map()));
    let key = groups.get(group);
    if (key === undefined) groups.set(group, (key = this.#keyOf(rule, group)));
    return key;
  }
}
