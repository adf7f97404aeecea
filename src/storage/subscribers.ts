import type { JobEvent } from "../core/events.ts";
import type { Subscriber } from "./job-storage.ts";

/** One subscription: the same subscriber may be added twice, and removed once. */
interface Listening {
  readonly subscriber: Subscriber;
}

/**
 * The subscribers of a storage, and their pending notifications. A step of the storage notes what happened; `notify` is called when the step
 * is over, so that subscribers see its effect, and may call the storage at once.
 */
export class Subscribers {
  /** Replaced, never changed: a subscriber may be added or removed while others are notified. */
  #all: readonly Listening[] = [];
  #events: JobEvent[] = [];
  #ended: string[] = [];
  #cancelled = new Map<string, string[]>();
  /** Should workers that a limit blocks claim, too? */
  #awake = new Map<string, boolean>();
  #notifying = false;
  /** Does a subscriber want events, or ended jobs? Otherwise none need be noted. */
  hearEvents = false;
  /** Does a subscriber want all events? */
  hearAll = false;
  /** Does a subscriber want ended jobs? */
  hearEnds = false;

  get size(): number {
    return this.#all.length;
  }

  add(subscriber: Subscriber): () => void {
    const own = { subscriber };
    this.#become([...this.#all, own]);
    return () => this.#become(this.#all.filter((other) => other !== own));
  }

  clear(): void {
    this.#become([]);
  }

  /** Something changed in the queue that may let a job start. */
  wake(queue: string, mayStart: boolean): void {
    if (this.#all.length > 0) this.#awake.set(queue, mayStart || this.#awake.get(queue) === true);
  }

  /** The same for every queue that has a subscriber. */
  wakeAll(mayStart: boolean): void {
    // A name that no queue has reaches the subscribers of all queues.
    for (const { subscriber } of this.#all) this.wake(subscriber.queue ?? "", mayStart);
  }

  /** An active job is to be aborted. */
  cancelled(queue: string, id: string): void {
    if (this.#all.length === 0) return;
    const ids = this.#cancelled.get(queue);
    if (ids === undefined) this.#cancelled.set(queue, [id]);
    else ids.push(id);
  }

  event(event: JobEvent): void {
    if (this.hearAll) this.#events.push(event);
    if (this.hearEnds && "id" in event && isEnd(event)) this.#ended.push(event.id);
  }

  /** These jobs may have ended. */
  ended(ids: readonly string[]): void {
    if (this.hearEnds) this.#ended.push(...ids);
  }

  /** Sends the noted notifications, in order. Those that are noted meanwhile are sent after them. */
  notify(): void {
    if (this.#notifying) return;
    this.#notifying = true;
    while (this.#events.length > 0 || this.#ended.length > 0 || this.#cancelled.size > 0 || this.#awake.size > 0) {
      const events = this.#events;
      const ended = this.#ended;
      const cancelled = this.#cancelled;
      const awake = this.#awake;
      this.#events = [];
      this.#ended = [];
      this.#cancelled = new Map();
      this.#awake = new Map();
      for (const event of events) this.#each(event.queue, (subscriber) => subscriber.event?.(event));
      if (ended.length > 0) this.#each(null, (subscriber) => subscriber.ended?.(ended));
      for (const [queue, ids] of cancelled) this.#each(queue, (subscriber) => subscriber.cancelled?.([...ids]));
      for (const [queue, mayStart] of awake) this.#each(queue, (subscriber) => subscriber.wake?.(mayStart));
    }
    this.#notifying = false;
  }

  #become(all: readonly Listening[]): void {
    this.#all = all;
    this.hearAll = all.some(({ subscriber }) => subscriber.event !== undefined);
    this.hearEnds = all.some(({ subscriber }) => subscriber.ended !== undefined);
    this.hearEvents = this.hearAll || this.hearEnds;
  }

  /** `queue`: null is for all subscribers. */
  #each(queue: string | null, hear: (subscriber: Subscriber) => void): void {
    for (const { subscriber } of this.#all) {
      if (queue !== null && subscriber.queue !== null && subscriber.queue !== queue) continue;
      try {
        hear(subscriber);
      } catch {
        // A subscriber that throws must not keep others from being notified, nor fail the step.
      }
    }
  }
}

function isEnd({ event }: JobEvent): boolean {
  return event === "completed" || event === "dead" || event === "cancelled";
}
