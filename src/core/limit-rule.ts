/** The numbers of a limit. null: not limited in this way. */
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

/** The overrides for one group, or for one value of a key. */
export interface GroupRule extends Partial<Quota> {
  /** How many jobs the group starts each time it has its turn. Only of a rule by group. */
  readonly share?: number;
}

/**
 * A named limit, as it is kept and shared. Plain data, all of it checked: it is written as JSON and compared.
 *
 * It applies to a job if its type is among `types` and its queue among `queues`; null: any.
 */
export interface LimitRule {
  readonly name: string;
  readonly quota: Quota;
  readonly types: readonly string[] | null;
  readonly queues: readonly string[] | null;
  /** Every group, or every value of what `by` names, has a state of its own; jobs without one share one. */
  readonly byGroup: boolean;
  /**
   * With `byGroup`: what it is counted by instead, as names of the job's keys, where "group" is its group; never that alone. Every
   * value, or combination of values, has a state of its own; jobs that have none of the keys share one.
   */
  readonly by?: readonly string[];
  /** The overrides for some groups, or values (`valueOf`). Empty unless `byGroup`. */
  readonly groups: Readonly<Record<string, GroupRule>>;
  /**
   * The name of the weight that a start is charged; null: a start is charged one. If the rule has a window, the weight is charged to the
   * window, and concurrency counts starts; else the weight is charged to concurrency.
   */
  readonly weight: string | null;
  /** The weight of a job that does not have one under this name. */
  readonly estimate: number;
  readonly breaker: BreakerRule | null;
  /** Paused by an operator: nothing starts until it is resumed. */
  readonly paused: boolean;
  /** A hold: nothing starts before this instant, in any group. By the clock of the storage. */
  readonly heldUntil?: number;
  /** Earlier starts may not have been counted as this rule counts them: its windows are full until then. */
  readonly blindUntil?: number;
}
