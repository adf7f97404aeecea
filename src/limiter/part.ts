import type { Clock } from "../core/clock.ts";
import type { WakeUps } from "../limits/wake-ups.ts";
import type { Wait } from "../limits/wait.ts";

/**
 * The smallest thing that can refuse a start. A plain limiter is one part, a composite is the parts of its children,
 * however deep. There are three kinds:
 *
 * - `Gate`: state in this process; asked and taken in one synchronous step.
 * - `RemotePart`: state elsewhere; taken by one atomic call that can be undone.
 * - `CheckedPart`: can only be asked and then told (a user's six-method limiter); told last, when nothing can refuse.
 */
export interface Part {
  readonly kind: "gate" | "remote" | "checked";
  readonly name: string;
  readonly clock: Clock;
  /** The largest weight it could ever grant; Infinity: it alone can tell. */
  readonly capacity: number;
  /** Does a start count for its weight, or for one? */
  readonly counts: "weight" | "starts";
  /** Parts with the same ledger write the same starts: one start under both is written once, and asked of both. */
  readonly ledger: object;
  /** Who waits for something to be given back here. */
  readonly wakeUps: WakeUps;

  /** The work ended. */
  release(token: unknown, weight: number): Promise<void> | void;
  /** The work never started. */
  cancel(token: unknown, weight: number): Promise<void> | void;
  /** The work used so much: corrects what stays counted, not what is held while it runs. */
  settle(token: unknown, used: number): Promise<void> | void;
}

/** State elsewhere, taken by one atomic call. */
export interface RemotePart extends Part {
  readonly kind: "remote";
  /** What was granted is used within so long of asking for it, or given back. */
  readonly grantTtl: number;
  /**
   * It tells by itself when there may be room: whoever waits looks again after so long at the latest, to be sure. Left out:
   * nobody tells, and whoever waits for something to be given back looks again ever less often.
   */
  readonly lookAgainMs?: number;
  /** Takes, or says how long to wait. A weight of 0 takes nothing and only asks. `said`: somebody gave the weight. */
  tryTake(weight: number, said: boolean): Promise<RemoteAnswer>;
  /** Was it asked for too long ago to be used? */
  isLate(token: unknown): boolean;
  /** What `token` was given for is called now. */
  called(token: unknown): void;
}

export type RemoteAnswer =
  | { readonly wait: 0; readonly token: unknown }
  /** `most`: what would have fitted, where this never will. */
  | { readonly wait: Wait; readonly most?: number };

/** Can be asked, then told; there is no undo, and only one may do it at a time. */
export interface CheckedPart extends Part {
  readonly kind: "checked";
  readonly lock: Lock;
  /** `clock` is what the waiting will go by. */
  ask(weight: number, clock: Clock): Promise<Wait>;
  /** A start happens. */
  tell(): Promise<void>;
}

/** One at a time, in order. */
export class Lock {
  static #made = 0;
  /** Locks taken together are taken in this order, so that no two callers wait for each other. */
  readonly order = ++Lock.#made;
  #tail: Promise<void> = Promise.resolve();

  /** Waits for its turn; the answer ends the turn. */
  async take(): Promise<() => void> {
    const before = this.#tail;
    let end!: () => void;
    this.#tail = new Promise((resolve) => (end = resolve));
    await before;
    return end;
  }
}
