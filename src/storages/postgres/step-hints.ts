/**
 * What subscribers may want to know of a step, beside its answer. All of it is hints. The names are those that the SQL functions
 * answer with.
 */
export interface StepHints {
  /** Queues in which a job may start now; `mayStart`: also wakes up workers that a limit blocks. */
  readonly woken?: readonly (readonly [queue: string, mayStart: boolean])[] | null;
  /** Wakes up the workers of every queue: a limit became available. */
  readonly wakeAll?: boolean | null;
  /** Active jobs that are asked to stop. */
  readonly stopping?: readonly (readonly [queue: string, id: string])[] | null;
  /** The step wrote events. */
  readonly events?: boolean | null;
  /** The step wrote one event for all jobs that ended, for waiters; waiters in the process of their worker know it already. */
  readonly ends?: boolean | null;
  /** The step has notified other processes itself. */
  readonly notified?: true | null;
}

export function hasHints({ woken, wakeAll, stopping, events, ends }: StepHints): boolean {
  return wakeAll === true || events === true || ends === true || isSome(woken) || isSome(stopping);
}

function isSome(list: readonly unknown[] | null | undefined): boolean {
  return list !== null && list !== undefined && list.length > 0;
}
