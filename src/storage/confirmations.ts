import type { Clock } from "../core/clock.ts";
import { inTime } from "../core/deadline.ts";
import type { Confirmation } from "./grants.ts";
import type { JobStorage } from "./job-storage.ts";
import type { ConfirmingRateLimiterStorage, ExecutionCall } from "./rate-limiter-storage.ts";

/**
 * After a failure it is tried again, each time after twice as long; then it is given up: what is not confirmed counts as if it
 * were called at the last moment, which is safe and soon makes no difference any more.
 */
const FIRST_RETRY_MS = 50;
const MOST_RETRIES = 3;
const WITHIN_MS = 2_000;

/**
 * What this process has to confirm: it goes along with the next step that can carry it, or is sent by itself, all of
 * it together, when the first of it is worth a call.
 */
export class Confirmations<Item = Confirmation> {
  readonly #clock: Clock;
  readonly #send: (items: readonly Item[]) => Promise<void>;
  #items: Item[] = [];
  /** When the first of it is worth a call. */
  #dueAt = Number.POSITIVE_INFINITY;
  /** It may come too early, for what has gone along with a step since: then it is set anew, or goes. */
  #timerAt = Number.POSITIVE_INFINITY;
  #cancelTimer: (() => void) | undefined;
  /** How often in a row it has failed. */
  #failures = 0;
  #closed = false;
  #sending: Promise<void> | undefined;

  constructor(clock: Clock, send: (items: readonly Item[]) => Promise<void>) {
    this.#clock = clock;
    this.#send = send;
  }

  /** `inMs`: after so long it is worth a call of its own. */
  add(item: Item, inMs: number): void {
    if (this.#closed) return;
    this.#items.push(item);
    this.#sendIn(inMs);
  }

  /** All there is goes along with a step. One that fails may not have confirmed it; to confirm twice is harmless. */
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

  /** Sends what there is, now. Never rejects: what fails is tried again later. */
  async flush(): Promise<void> {
    while (this.#sending !== undefined) await this.#sending;
    this.#cancel();
    if (this.#items.length === 0) return;
    const send = (items: readonly Item[]) => inTime(this.#clock, () => this.#send(items), { withinMs: WITHIN_MS });
    this.#sending = this.carriedBy(send).catch(() => {});
    await this.#sending;
    this.#sending = undefined;
  }

  /** The storage is about to close: what there is goes now, or never, and no timer is left. Undefined: there is nothing. */
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

/** What is to be confirmed to a storage of jobs, and to one of rates, as long as that is used. */
const ofJobs = new WeakMap<object, Confirmations>();
const ofRates = new WeakMap<object, Confirmations<RateCall>>();

/** Those of this storage: one for all workers and limiters of the process, so that one call confirms for all of them. */
export function confirmationsOf(storage: Pick<JobStorage, "confirm">, clock: Clock): Confirmations {
  let confirmations = ofJobs.get(storage);
  if (confirmations === undefined) {
    confirmations = new Confirmations(clock, (items) => storage.confirm(items));
    ofJobs.set(storage, confirmations);
  }
  return confirmations;
}

/** A start that was made under this name. */
export interface RateCall extends ExecutionCall {
  readonly name: string;
}

/** The same for a storage of rates: one for all limiters over it, and one call for each name. */
export function rateConfirmationsOf(
  storage: Pick<ConfirmingRateLimiterStorage, "confirmExecution">,
  clock: Clock,
): Confirmations<RateCall> {
  let confirmations = ofRates.get(storage);
  if (confirmations === undefined) {
    confirmations = new Confirmations(clock, async (calls) => {
      const byName = Map.groupBy(calls, ({ name }) => name);
      const said = Array.from(byName, ([name, own]) =>
        storage.confirmExecution(
          name,
          own.map(({ token, calledInMs }) => ({ token, calledInMs })),
        ),
      );
      await Promise.all(said);
    });
    ofRates.set(storage, confirmations);
  }
  return confirmations;
}

/** For a storage that is about to close: what its process has not confirmed yet is confirmed now. Undefined: there is nothing. */
export function closeConfirmations(...storages: readonly object[]): Promise<unknown> | undefined {
  const closing = storages.flatMap((storage) =>
    [ofJobs.get(storage)?.close(), ofRates.get(storage)?.close()].filter((one) => one !== undefined),
  );
  return closing.length === 0 ? undefined : Promise.all(closing);
}
