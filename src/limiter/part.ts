import type { Clock } from "../core/clock.ts";
import type { WakeUps } from "../limits/wake-ups.ts";
import type { Wait } from "../limits/wait.ts";

/**
 * The smallest thing that can refuse a start. A plain limiter is one part, a composite is the parts of its children,
 * however deep. There are three kinds:
 *
 * - `Gate`: state in this process; checked and charged in one synchronous step.
 * - `RemotePart`: state elsewhere; charged by one atomic call that can be undone.
 * - `CheckedPart`: can only be checked and then record (a user's six-method limiter); records last, when nothing can refuse.
 */
export interface Part {
  readonly kind: "gate" | "remote" | "checked";
  readonly name: string;
  readonly clock: Clock;
  /** The largest weight it could ever grant; Infinity: unknown. */
  readonly capacity: number;
  /** What to do about a weight above the capacity, for the error message. */
  readonly hint?: string;
  /** Does a start count for its weight, or for one? */
  readonly counts: "weight" | "starts";
  /** Parts with the same state record the same starts: a start under both is checked by both, and recorded once. */
  readonly state: object;
  /** Notified when something is returned here. */
  readonly wakeUps: WakeUps;

  /** The start that `token` was returned for is called now. Left out: it does not matter when that happens. */
  called?(token: unknown): void;
  /** The work ended. */
  release(token: unknown, weight: number): Promise<void> | void;
  /** The work never started. */
  cancel(token: unknown, weight: number): Promise<void> | void;
  /** The work used so much: corrects what stays counted, not the slots in use while it runs. */
  settle(token: unknown, used: number): Promise<void> | void;
}

/** State elsewhere, charged by one atomic call. */
export interface RemotePart extends Part {
  readonly kind: "remote";
  /** A grant is used within so long of the request, or returned. */
  readonly grantTtl: number;
  /**
   * The part sends wake-ups by itself; a waiter asks again after so long at the latest. Left out:
   * it sends none, and a waiter asks again ever less often.
   */
  readonly lookAgainMs?: number;
  /** Charges, or returns how long to wait. A weight of 0 charges nothing and only checks. `given`: by the caller, and not by default. */
  tryTake(weight: number, given: boolean): Promise<RemoteAnswer>;
  /** Was it requested too long ago to be used? */
  isLate(token: unknown): boolean;
}

export type RemoteAnswer =
  | { readonly wait: 0; readonly token: unknown }
  /** `most`: the largest weight that can fit, where this one never will. */
  | { readonly wait: Wait; readonly most?: number };

/** Can be checked, and then record; there is no undo, and only one caller may do so at a time. */
export interface CheckedPart extends Part {
  readonly kind: "checked";
  readonly lock: Lock;
  /** `clock` is the clock that the waiting uses. */
  ask(weight: number, clock: Clock): Promise<Wait>;
  /** A start happens. */
  recordStart(): Promise<void>;
}

/** One at a time, in order. */
export class Lock {
  static #made = 0;
  /** Locks taken together are taken in this order, so that no two callers wait for each other. */
  readonly order = ++Lock.#made;
  #tail: Promise<void> = Promise.resolve();

  /** Waits for its turn; the returned function ends it. */
  async take(): Promise<() => void> {
    const before = this.#tail;
    let end!: () => void;
    this.#tail = new Promise((resolve) => (end = resolve));
    await before;
    return end;
  }
}
