/**
 * A start is granted by the storage and called a moment later, somewhere else. Windows and spacing are exact as called if, at
 * every decision, the instant of each start is at or after the one at which its call is really made. So a start that comes with
 * a `grantTtlMs` is counted twice over:
 *
 * 1. At the grant it counts as if it were called at the last moment: so long after the grant. The caller makes the call within
 *    `grantTtlMs` of the first sending of its request, by its own clock, or never.
 * 2. When the calls were made they are confirmed, and the start counts from then. A crash in between leaves it as it was.
 *
 * A claim that is refused because of an unconfirmed start gets the instant at which to look again (`lookAgainIn`).
 */
export interface Grant {
  /** Names what was counted, for `Confirmation.grant`. */
  readonly id: string;
  /** If nothing that can carry the confirmation is sent before, it is worth a call of its own after so long. */
  readonly confirmInMs: number;
}

/** All calls of a grant were made, or never will be. */
export interface Confirmation {
  /** `Grant.id`. One that is unknown, or was confirmed before, changes nothing. */
  readonly grant: string;
  /**
   * From the first sending of the request that was granted to the last of its calls: never less than that. More than
   * `grantTtlMs` is a call that was made too late, and counts from there as well.
   */
  readonly calledInMs: number;
}

/** A confirmation that nothing carries is sent by itself after half a window, and after a second at the latest. */
export const confirmInMs = (windowMs: number): number => Math.min(windowMs / 2, LONGEST_UNCONFIRMED_MS);

const LONGEST_UNCONFIRMED_MS = 1_000;
