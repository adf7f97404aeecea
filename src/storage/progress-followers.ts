import type { Clock } from "../core/clock.ts";
import { getOrMake } from "../core/get-or-make.ts";
import type { JobEvent } from "../core/events.ts";
import type { JobProgress } from "../core/job.ts";
import type { Ending, JobStorage } from "./job-storage.ts";
import { type Waiter, type Waiters, waitersOf } from "./waiters.ts";

interface Follower {
  readonly queue: string;
  readonly callback: (progress: JobProgress) => void;
}

/** A followed job. Its end is awaited, since a job that is removed or replaced ends without an event. */
class Followed implements Waiter {
  before: Waiter | undefined;
  after: Waiter | undefined;
  readonly followers = new Set<Follower>();
  readonly #lookAgain: () => void;
  readonly #forget: () => void;

  constructor(lookAgain: (waiter: Waiter) => void, forget: () => void) {
    this.#lookAgain = () => lookAgain(this);
    this.#forget = forget;
  }

  /** Progress that was reported before the end may come after it: then the event of the end comes last. */
  ended(_: Ending, here: boolean): void {
    if (here) this.#lookAgain();
    else this.#forget();
  }

  failed(): void {
    try {
      this.#lookAgain();
    } catch {
      // The storage is closed.
      this.#forget();
    }
  }
}

type Source = Pick<JobStorage, "endings" | "subscribe" | "sweep" | "limits">;

/** All followers of progress of one storage in this process: one subscription, and each event goes to the followers of its job. */
class ProgressFollowers {
  readonly #storage: Source;
  readonly #waiters: Waiters;
  readonly #followed = new Map<string, Followed>();
  #unsubscribe: (() => void) | undefined;

  constructor(storage: Source, clock: Clock) {
    this.#storage = storage;
    this.#waiters = waitersOf(storage, clock);
  }

  add(id: string, follower: Follower): () => void {
    this.#unsubscribe ??= this.#storage.subscribe({ queue: null, event: (event) => this.#hear(event) });
    const followed = getOrMake(this.#followed, id, () => this.#follow(id));
    followed.followers.add(follower);
    return () => {
      followed.followers.delete(follower);
      if (followed.followers.size === 0) this.#leave(id, followed);
    };
  }

  #follow(id: string): Followed {
    const followed = new Followed(
      (waiter) => this.#waiters.add(id, waiter, true),
      () => this.#forget(id),
    );
    this.#waiters.add(id, followed);
    return followed;
  }

  #hear(event: JobEvent): void {
    if (!("id" in event)) return;
    const followed = this.#followed.get(event.id);
    if (followed === undefined) return;
    if (event.event === "progress") {
      for (const { queue, callback } of followed.followers) {
        if (queue === event.queue) safely(() => callback(event.progress));
      }
    } else if (event.event === "completed" || event.event === "dead" || event.event === "cancelled") {
      this.#leave(event.id, followed);
    }
  }

  #leave(id: string, followed: Followed): void {
    if (this.#followed.get(id) !== followed) return;
    this.#waiters.leave(id, followed);
    this.#forget(id);
  }

  #forget(id: string): void {
    this.#followed.delete(id);
    if (this.#followed.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}

const ofStorage = new WeakMap<object, ProgressFollowers>();

/** Calls the listener with every published progress of the job, until it ends, is gone, or the returned function is called. */
export function followProgress(
  { storage, queue, clock }: { readonly storage: Source; readonly queue: string; readonly clock: Clock },
  id: string,
  callback: (progress: JobProgress) => void,
): () => void {
  return getOrMake(ofStorage, storage, () => new ProgressFollowers(storage, clock)).add(id, { queue, callback });
}

function safely(call: () => void): void {
  try {
    call();
  } catch {
    // A listener that throws does not keep the others from being called.
  }
}
