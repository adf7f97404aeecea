/**
 * The claimants that wait for slots of a limit state: it has refused their jobs, and started none in the same claim. Workers of one queue
 * that ask for the same types are one claimant, since each of them starts what the others leave. All permits are one, too.
 *
 * A worker that settles and claims in one step takes the slots again that it releases. So a claim answers for how long others have waited,
 * and the worker leaves them a turn (`worker/wake-up-time.ts`).
 */
export interface Starved {
  /** The claimant, or `SEVERAL`. */
  readonly by: string;
  /** Since when; of several, since when the second one waits. */
  readonly since: number;
}

/** The claimant of every permit. */
export const PERMITS = "permits";

const SEVERAL = "several";

/** What a claim asks for. */
interface Asked {
  readonly queue: string;
  readonly types: readonly string[] | null;
  readonly max: number;
}

/** The claimant of a claim: a short name, for it is stored with the limit. Undefined: the claim takes no slots in any case. */
export function claimantOf({ queue, types, max }: Asked): string | undefined {
  if (max === 0) return undefined;
  const text = JSON.stringify([queue, types === null ? null : types.toSorted()]);
  let hash = 0x811c_9dc5;
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x0100_0193);
  return (hash >>> 0).toString(36);
}

/** The limit state has no slot for this claimant. Answers with `before` where that is known already. */
export function starve(before: Starved | undefined, claimant: string, now: number): Starved {
  if (before === undefined) return { by: claimant, since: now };
  return before.by === claimant || before.by === SEVERAL ? before : { by: SEVERAL, since: now };
}

/** What a claim answers about others that wait: nothing where none do. */
export const waitOfOthers = (othersWaitMs: number): { readonly othersWaitMs?: number } =>
  othersWaitMs === 0 ? {} : { othersWaitMs };

/** For how long others than this claimant have waited, a millisecond at the least; 0: none do. */
export function othersWait(starved: Starved | undefined, claimant: string | undefined, now: number): number {
  return starved === undefined || claimant === undefined || starved.by === claimant
    ? 0
    : Math.max(1, now - starved.since);
}
