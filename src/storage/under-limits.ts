import { applies, type Charge, chargeOf, type LimitRule } from "../limits/rule.ts";
import { NEVER, type Wait } from "../limits/wait.ts";

/** One limit as one claim sees it: for one group, or for all. What the claim takes is counted at once. */
export interface Meter {
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
export interface Use {
  readonly meter: Meter;
  readonly charge: Charge;
}

/** May a job start? If not, what is in its way the longest. */
export type Leave =
  | { readonly granted: true; readonly uses: readonly Use[] }
  | { readonly granted: false; readonly by: Meter; readonly wait: Wait; readonly charge: Charge };

/** The limits of one type in one queue. */
interface OfType {
  readonly general: readonly Meter[];
  readonly perGroup: readonly LimitRule[];
  /** Does it matter how heavy a job is? */
  readonly weighs: boolean;
  /** What a job that weighs nothing in particular takes, by group; of types without limits by group, under null. */
  readonly uses: Map<string | null, readonly Use[]>;
}

/**
 * The limits that the jobs of one claim run under. A start takes all of its limits or none.
 *
 * Nobody passes a job that came first and waits for a limit: when the head of a type does not fit into a limit that is not
 * per group, the limit is closed for whatever comes later in the claim. So a heavy job waits for one window at the most,
 * however many light ones there are.
 */
export class UnderLimits {
  readonly #rules: readonly LimitRule[];
  readonly #queue: string;
  readonly #meterOf: (rule: LimitRule, group: string | null) => Meter;
  readonly #types = new Map<string, OfType>();
  readonly #meters = new Map<LimitRule, Map<string | null, Meter>>();
  /** Limits that a head waits for, and how long. */
  readonly #closed = new Map<Meter, Wait>();

  /** `rules`: those that are in force. `meterOf` is asked once for each limit and group. */
  constructor(rules: readonly LimitRule[], queue: string, meterOf: (rule: LimitRule, group: string | null) => Meter) {
    this.#queue = queue;
    this.#rules = rules.filter(({ queues }) => queues === null || queues.includes(queue));
    this.#meterOf = meterOf;
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

  /** May a job of this type, group, weights and priority start now? Takes nothing. */
  ask(type: string, group: string | null, weights: Readonly<Record<string, number>> | null, priority: number): Leave {
    const uses = this.#usesOf(type, group, weights);
    let by: Use | undefined;
    let longest: Wait = 0;
    for (const use of uses) {
      const { meter, charge } = use;
      const own = meter.wait(charge, priority);
      if (own === NEVER) return { granted: false, by: meter, wait: own, charge };
      // Types are closed as a whole; those of a group are met here.
      const closed = meter.rule.byGroup && this.#closed.size > 0 ? (this.#closed.get(meter) ?? 0) : 0;
      const wait = closed > own ? closed : own;
      if (wait <= longest) continue;
      longest = wait;
      by = use;
    }
    if (by === undefined) return { granted: true, uses };
    return { granted: false, by: by.meter, wait: longest, charge: by.charge };
  }

  /** The start happens. */
  take(uses: readonly Use[]): void {
    for (const { meter, charge } of uses) meter.take(charge);
  }

  /** A head waits so long for this limit, for its group: from now on none of the group takes from it, in this claim. */
  close(meter: Meter, wait: Wait): void {
    this.#closed.set(meter, wait);
  }

  /** When the limits of this type that are not per group would let a start happen that counts for one; and what is in its way. */
  earliest(type: string): { readonly wait: Wait; readonly by: Meter | null } {
    let wait: Wait = 0;
    let by: Meter | null = null;
    for (const meter of this.#of(type).general) {
      const own = meter.wait({ weight: 1, slots: 1 });
      if (own === 0 || (by !== null && own <= wait)) continue;
      wait = own;
      by = meter;
    }
    return { wait, by };
  }

  #usesOf(type: string, group: string | null, weights: Readonly<Record<string, number>> | null): readonly Use[] {
    const { general, perGroup, weighs, uses: known } = this.#of(type);
    const counted = perGroup.length === 0 ? null : group;
    const before = weighs ? undefined : known.get(counted);
    if (before !== undefined) return before;
    const meters = perGroup.length === 0 ? general : [...general, ...perGroup.map((rule) => this.#meter(rule, group))];
    const uses = meters.map((meter): Use => ({ meter, charge: chargeOf(meter.rule, weights) }));
    // Whatever a job says that nobody weighs, it takes the same as the others.
    if (!weighs) known.set(counted, uses);
    return uses;
  }

  #of(type: string): OfType {
    let found = this.#types.get(type);
    if (found === undefined) {
      const rules = this.#rules.filter((rule) => applies(rule, this.#queue, type));
      found = {
        general: rules.filter(({ byGroup }) => !byGroup).map((rule) => this.#meter(rule, null)),
        perGroup: rules.filter(({ byGroup }) => byGroup),
        weighs: rules.some(({ weight }) => weight !== null),
        uses: new Map(),
      };
      this.#types.set(type, found);
    }
    return found;
  }

  #meter(rule: LimitRule, group: string | null): Meter {
    let groups = this.#meters.get(rule);
    if (groups === undefined) this.#meters.set(rule, (groups = new Map()));
    let meter = groups.get(group);
    if (meter === undefined) groups.set(group, (meter = this.#meterOf(rule, group)));
    return meter;
  }
}
