import { getOrMake } from "../core/get-or-make.ts";
import type { Clock } from "../core/clock.ts";
import { inTime } from "../core/deadline.ts";
import type { Confirmation } from "./grants.ts";
import type { JobStorage } from "./job-storage.ts";
import type { ConfirmingRateLimiterStorage, ExecutionCall } from "./rate-limiter-storage.ts";

/**
 * After a failure the call is tried again, each time after twice as long; then the confirmations are given up: an unconfirmed start counts
 * at the last possible instant of its call, which is safe and soon makes no difference.
 */
const FIRST_RETRY_MS = 50;
const MOST_RETRIES = 3;
const WITHIN_MS = 2_000;

/**
 * The confirmations that this process has to send: the next step that can carry them takes them along, or one call of their own
 * sends them all when the first is due.
 */
export class Confirmations<Item = Confirmation> {
  readonly #clock: Clock;
  readonly #send: (items: readonly Item[]) => Promise<void>;
  #items: Item[] = [];
  /** When the first confirmation is due for a call of its own. */
  #dueAt = Number.POSITIVE_INFINITY;
  /** The timer may fire too early, if a step took the confirmations along: then it is set again or removed. */
  #timerAt = Number.POSITIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  /** How many calls in a row have failed. */
  #failures = 0;
  #closed = false;
  #sending: Promise<void> | undefined;

  constructor(clock: Clock, send: (items: readonly Item[]) => Promise<void>) {
    this.#clock = clock;
    this.#send = send;
  }

  /** `inMs`: after so long the confirmation is due for a call of its own. */
  add(item: Item, inMs: number): void {
    if (this.#closed) return;
    this.#items.push(item);
    this.#sendIn(inMs);
  }

  /** Runs a step that carries all confirmations. If it fails they are sent again; to confirm twice is harmless. */
  async carriedBy<T>(step: (items: readonly Item[]) => Promise<T>): Promise<T> {
    const items = this.#take();
    try {
      const answer = await step(items);
      if (items.length > 0) this.#failures = 0;
      return answer;
    } catch (error) {
      this.#restore(items);
      throw error;
    }
  }

  #take(): readonly Item[] {
    const items = this.#items;
    if (items.length > 0) this.#items = [];
    this.#dueAt = Number.POSITIVE_INFINITY;
    return items;
  }

  #restore(items: readonly Item[]): void {
    if (items.length === 0 || this.#closed) return;
    this.#failures += 1;
    if (this.#failures > MOST_RETRIES) {
      this.#failures = 0;
      return;
    }
    this.#items = [...items, ...this.#items];
    this.#sendIn(FIRST_RETRY_MS * 2 ** (this.#failures - 1));
  }

  /** Sends all confirmations now. Never rejects: a failed call is tried again later. */
  async flush(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
    this.#cancel();
    if (this.#items.length === 0) return;
    const send = (items: readonly Item[]) => inTime(this.#clock, () => this.#send(items), { withinMs: WITHIN_MS });
    this.#sending = this.carriedBy(send).catch(() => {});
    await this.#sending;
    this.#sending = undefined;
  }

  /** The storage is about to close: all confirmations are sent now, once, and no timer is left. Undefined: there are none. */
  close(): Promise<void> | undefined {
    this.#closed = true;
    this.#cancel();
    return this.#items.length > 0 || this.#sending !== undefined ? this.flush() : undefined;
  }

  #sendIn(ms: number): void {
    this.#dueAt = Math.min(this.#dueAt, this.#clock.now() + ms);
    if (this.#dueAt < this.#timerAt) this.#setTimer();
  }

  #setTimer(): void {
    this.#cancel();
    this.#timerAt = this.#dueAt;
    this.#cancelTimer = this.#clock.after(this.#dueAt - this.#clock.now(), () => {
      this.#cancel();
      if (this.#dueAt === Number.POSITIVE_INFINITY) return;
      // Timers may come a little early.
      if (this.#dueAt - this.#clock.now() >= 1) this.#setTimer();
      else void this.flush();
    });
  }

  #cancel(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#timerAt = Number.POSITIVE_INFINITY;
  }
}

/** The confirmations of each storage of jobs, and of each storage of rates. */
const ofJobs = new WeakMap<object, Confirmations>();
const ofRates = new WeakMap<object, Confirmations<RateCall>>();

/** The confirmations of this storage: one instance for all workers and limiters of the process, so that one call confirms for all. */
export function confirmationsOf(storage: Pick<JobStorage, "confirm">, clock: Clock): Confirmations {
  return getOrMake(ofJobs, storage, () => new Confirmations(clock, (items) => storage.confirm(items)));
}

/** A start that was made under this name. */
export interface RateCall extends ExecutionCall {
  readonly name: string;
}

/** The same for a storage of rates: one instance for all its limiters, and one call for each name. */
export function rateConfirmationsOf(
  storage: Pick<ConfirmingRateLimiterStorage, "confirmExecution">,
  clock: Clock,
): Confirmations<RateCall> {
  const send = async (calls: readonly RateCall[]) => {
    const byName = Map.groupBy(calls, ({ name }) => name);
    const said = Array.from(byName, ([name, own]) =>
      storage.confirmExecution(
        name,
        own.map(({ token, calledInMs }) => ({ token, calledInMs })),
      ),
    );
    await Promise.all(said);
  };
  return getOrMake(ofRates, storage, () => new Confirmations(clock, send));
}

/** For storages that are about to close: sends their confirmations now. Undefined: there are none. */
export function closeConfirmations(...storages: readonly object[]): Promise<unknown> | undefined {
  const closing = storages.flatMap((storage) =>
    [ofJobs.get(storage)?.close(), ofRates.get(storage)?.close()].filter((one) => one !== undefined),
  );
  return closing.length === 0 ? undefined : Promise.all(closing);
}
