/**
 * The storage grants a start, and another process makes the call a moment later. Windows and spacing are exact as called if, at
 * every decision, the stored instant of each start is at or after the instant of its call. So a start with a `grantTtlMs` is stored
 * in two steps:
 *
 * 1. At the grant it is stored at the last possible instant of its call: `grantTtlMs` after the grant. The caller makes the call within
 *    `grantTtlMs` of the first sending of its request, by its own clock, or never.
 * 2. When the calls were made they are confirmed, and the start is moved to that instant. After a crash in between it stays where it was.
 *
 * A claim that is refused because of an unconfirmed start gets the instant at which to look again (`lookAgainIn`).
 */
export interface Grant {
  /** The id of the counted starts, for `Confirmation.grant`. */
  readonly id: string;
  /** After so long the confirmation is due for a call of its own, if no other call has carried it. */
  readonly confirmInMs: number;
}

/** All calls of a grant were made, or never will be. */
export interface Confirmation {
  /** `Grant.id`. One that is unknown, or was confirmed before, changes nothing. */
  readonly grant: string;
  /**
   * The time from the first sending of the granted request to the last of its calls: never less than that. If it is more than
   * `grantTtlMs`, a call was made too late, and the start counts from there as well.
   */
  readonly calledInMs: number;
}

/** A confirmation is due for a call of its own after half a window, and after a second at the latest. */
export const confirmInMs = (windowMs: number): number => Math.min(windowMs / 2, LONGEST_UNCONFIRMED_MS);

const LONGEST_UNCONFIRMED_MS = 1_000;
