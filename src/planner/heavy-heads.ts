import { type Wait, WHEN_RELEASED } from "../limits/wait.ts";

/** When a heavy head fits, the key stays reserved for so long: the claim that starts the head is on the way. */
const GRACE_MS = 100;

/** A job that asks for a limit key. */
export interface Asking {
  /** Its lane; 0: it is in none. */
  readonly id: number;
  readonly priority: number;
  /** When the key refused it first, as a number that grows; infinity: not yet, for its weight. */
  readonly since: number;
}

/**
 * The first job of its lane that is heavier than what a limit key had left. It reserves the key: until it fits, and a grace longer, no job
 * takes of the key that does not come before it. Otherwise light jobs that fit now and then would keep it waiting for ever.
 */
export interface HeavyHead extends Asking {
  /** The instant at which it fits; infinity: when something is returned. */
  readonly until: number;
}

/** What a claim may do for heavy heads itself, beside the job that it asks for. */
export interface OwnHeads<Head> {
  /** May it start this head, too? */
  mayStart(head: Head): boolean;
  /** Does the head fit now, but not any more once the job has started? */
  isDrained(head: Head): boolean;
}

/** As if all heads were claimed as soon as they fit. */
export const CLAIMED: OwnHeads<unknown> = { mayStart: () => true, isDrained: () => false };

/**
 * How long a job waits for the heavy heads of a key that come before it; 0: it does not. The higher priority comes first, then the head that
 * was refused first. A claim that may start the head itself (`own`) needs no grace, and starts them in any order: unless the job would take
 * what the head fits into.
 */
export function waitForHeads<Head extends HeavyHead>(
  heads: Iterable<Head>,
  asking: Asking,
  now: number,
  own?: OwnHeads<Head>,
): Wait {
  let longest: Wait = 0;
  for (const head of heads) {
    const { id, priority, since, until } = head;
    if (id === asking.id || !((priority - asking.priority || asking.since - since || asking.id - id) > 0)) continue;
    const grace = until > now || (own?.mayStart(head) === true && !own.isDrained(head)) ? 0 : GRACE_MS;
    longest = Math.max(longest, until + grace - now);
    if (longest === WHEN_RELEASED) break;
  }
  return longest;
}

/** Has the reservation ended? */
export const isOver = ({ until }: HeavyHead, now: number): boolean => until + GRACE_MS <= now;

/**
 * When the head fits after something of its key was returned, at `returnedAt`. `fits`: how long its own charge waits now. If it fits, the
 * grace began at the return.
 */
export function untilGiven({ until }: HeavyHead, returnedAt: number, fits: Wait, now: number): number {
  return fits > 0 ? now + fits : Math.min(until, returnedAt);
}
