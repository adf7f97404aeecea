/** What a step tells beside its own answer. */
export interface Told {
  /** Queues where something changed that may let a job start; and whether it is news for those whom a limit keeps back. */
  readonly woken?: readonly (readonly [queue: string, news: boolean])[] | null;
  /** News for every queue: a limit has room again. */
  readonly everybody?: boolean | null;
  /** Active jobs that are asked to stop. */
  readonly stopping?: readonly (readonly [queue: string, id: string])[] | null;
  /** It wrote down events. */
  readonly events?: boolean | null;
  /** It wrote down, as one, that jobs ended: for those that wait for them, who know it already where a worker is theirs. */
  readonly ends?: boolean | null;
  /** It has told others of all this itself. */
  readonly told?: true | null;
}

/** Is there anything in it? */
export function isNewsworthy({ woken, everybody, stopping, events, ends }: Told): boolean {
  return everybody === true || events === true || ends === true || isSome(woken) || isSome(stopping);
}

function isSome(list: readonly unknown[] | null | undefined): boolean {
  return list !== null && list !== undefined && list.length > 0;
}
