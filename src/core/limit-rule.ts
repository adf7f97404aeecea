/** How much may happen. null: not limited in this way. */
export interface Quota {
  /** At most so much … (0: nothing, until that is changed.) */
  readonly max: number | null;
  /** … in any window of this length. */
  readonly windowMs: number | null;
  /** At most so much at the same time. (0: nothing, until that is changed.) */
  readonly concurrency: number | null;
  /** At least so long from one start to the next. */
  readonly everyMs: number | null;
}

/** After so many failures in a row nothing starts for a while; then a few probes decide. */
export interface BreakerRule {
  /** So many in a row. */
  readonly failures: number;
  /** How long nothing starts then. */
  readonly openMs: number;
  /** How many may run at a time after that, until one of them succeeds. */
  readonly probes: number;
  /** Names or codes of the errors that count; null: any. */
  readonly kinds: readonly string[] | null;
}

/** What is different for one group. */
export interface GroupRule extends Partial<Quota> {
  /** How many jobs the group starts each time it has its turn. */
  readonly share?: number;
}

/**
 * A named limit, as it is kept and shared. Plain data, all of it checked: it is written as JSON and compared.
 *
 * It applies to a job if its type is among `types` and its queue among `queues`; null: whatever they are.
 */
export interface LimitRule {
  readonly name: string;
  readonly quota: Quota;
  readonly types: readonly string[] | null;
  readonly queues: readonly string[] | null;
  /** Every group has a state of its own; jobs without a group share one. */
  readonly byGroup: boolean;
  /**
   * With `byGroup`: what it is counted by instead, as names of the job's keys, where "group" is its group. Every value, or
   * combination of values, has a state of its own; jobs that have none of the keys share one.
   */
  readonly by?: readonly string[];
  /** What is different for some groups. Empty unless `byGroup`. */
  readonly groups: Readonly<Record<string, GroupRule>>;
  /**
   * A start counts for what the job says under this name; null: for one. Where the rule has a window that is what is
   * weighed, and concurrency counts starts; else concurrency is.
   */
  readonly weight: string | null;
  /** What a start counts for whose job says nothing. */
  readonly estimate: number;
  readonly breaker: BreakerRule | null;
  /** Stopped by hand: nothing starts until it is resumed. */
  readonly paused: boolean;
  /** Nothing starts before, in any group: somebody from outside said so. By the clock of the storage. */
  readonly heldUntil?: number;
  /** Starts of before may not have been counted as this rule would have: its windows are full until then. */
  readonly blindUntil?: number;
}
