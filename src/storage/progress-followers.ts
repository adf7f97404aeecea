import { getOrMake } from "../core/get-or-make.ts";
import type { JobEvent } from "../core/events.ts";
import type { JobProgress } from "../core/job.ts";
import type { JobStorage } from "./job-storage.ts";

/** How many jobs one look-up asks for. */
const STEP = 500;

interface Follower {
  readonly queue: string;
  readonly callback: (progress: JobProgress) => void;
}

type Source = Pick<JobStorage, "endings" | "subscribe">;

/** All followers of progress of one storage in this process: one subscription, and each event goes to the followers of its job. */
class ProgressFollowers {
  readonly #storage: Source;
  readonly #followers = new Map<string, Set<Follower>>();
  /** Jobs followed since the last look-up: they may have ended before. */
  #fresh: string[] = [];
  #unsubscribe: (() => void) | undefined;

  constructor(storage: Source) {
    this.#storage = storage;
  }

  add(id: string, follower: Follower): () => void {
    this.#unsubscribe ??= this.#storage.subscribe({ queue: null, event: (event) => this.#hear(event) });
    const others = this.#followers.get(id);
    if (others === undefined) this.#followers.set(id, new Set([follower]));
    else others.add(follower);
    this.#fresh.push(id);
    if (this.#fresh.length === 1) void this.#leaveEnded();
    return () => {
      const followers = this.#followers.get(id);
      if (followers?.delete(follower) === true && followers.size === 0) this.#forget(id);
    };
  }

  #hear(event: JobEvent): void {
    if (!("id" in event)) return;
    const followers = this.#followers.get(event.id);
    if (followers === undefined) return;
    if (event.event === "progress") {
      for (const { queue, callback } of followers) if (queue === event.queue) safely(() => callback(event.progress));
    } else if (event.event === "completed" || event.event === "dead" || event.event === "cancelled") {
      this.#forget(event.id);
    }
  }

  /** Ends the followers of jobs that have ended or do not exist. Never rejects. */
  async #leaveEnded(): Promise<void> {
    // Followers of the same turn are looked up together.
    await Promise.resolve();
    const ids = [...new Set(this.#fresh.splice(0))];
    for (let n = 0; n < ids.length; n += STEP) {
      const step = ids.slice(n, n + STEP);
      try {
        for (const { id } of (await this.#storage.endings(step)).ended) this.#forget(id);
      } catch {
        for (const id of step) this.#forget(id);
      }
    }
  }

  #forget(id: string): void {
    this.#followers.delete(id);
    if (this.#followers.size > 0) return;
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
  }
}

const ofStorage = new WeakMap<object, ProgressFollowers>();

/** Calls the listener with every published progress of the job, until it ends or the returned function is called. */
export function followProgress(
  storage: Source,
  queue: string,
  id: string,
  callback: (progress: JobProgress) => void,
): () => void {
  return getOrMake(ofStorage, storage, () => new ProgressFollowers(storage)).add(id, { queue, callback });
}

function safely(call: () => void): void {
  try {
    call();
  } catch {
    // A listener that throws does not keep the others from being called.
  }
}
