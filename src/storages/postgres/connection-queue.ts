/** A call that waits for a connection. */
export interface ConnectionWaiter<T> {
  readonly taken: (value: T) => void;
  readonly refused: (error: unknown) => void;
}

/** So many requests are abandoned at most: each may still wait in the queue of the pool. */
const MOST_ABANDONED = 2;

/**
 * The calls that wait for a connection, in order. A connection that comes when no call waits is given back. A request that is still
 * under way when its call has given up serves the next call, so that the queue of the pool does not grow with every call that gives up.
 */
export class ConnectionQueue<T> {
  readonly #ask: () => Promise<T>;
  readonly #unwanted: (value: T) => void;
  readonly #waiters: ConnectionWaiter<T>[] = [];
  /** Requests that are under way. */
  readonly #requests = new Set<object>();
  /** Requests that took too long: no call counts on them. */
  readonly #abandoned = new Set<object>();

  /** `unwanted`: gives back a connection that no call waits for. */
  constructor(ask: () => Promise<T>, unwanted: (value: T) => void) {
    this.#ask = ask;
    this.#unwanted = unwanted;
  }

  join(waiter: ConnectionWaiter<T>, first: boolean): void {
    if (first) this.#waiters.unshift(waiter);
    else this.#waiters.push(waiter);
    if (this.#requests.size >= this.#waiters.length) return;
    const request = {};
    this.#requests.add(request);
    // `ask` may also throw.
    new Promise<T>((answer) => answer(this.#ask())).then(
      (value) => {
        this.#requests.delete(request);
        this.#abandoned.delete(request);
        const next = this.#waiters.shift();
        if (next === undefined) this.#unwanted(value);
        else next.taken(value);
      },
      (error: unknown) => {
        this.#requests.delete(request);
        this.#abandoned.delete(request);
        this.#waiters.shift()?.refused(error);
      },
    );
  }

  /** `late`: the call has waited for so long that its request may never be answered. The next call makes a new one, up to a bound. */
  leave(waiter: ConnectionWaiter<T>, late: boolean): void {
    const at = this.#waiters.indexOf(waiter);
    if (at === -1) return;
    this.#waiters.splice(at, 1);
    const [oldest] = this.#requests;
    if (!late || oldest === undefined || this.#abandoned.size >= MOST_ABANDONED) return;
    this.#requests.delete(oldest);
    this.#abandoned.add(oldest);
  }

  /** Refuses all calls that wait. */
  close(error: unknown): void {
    for (const waiter of this.#waiters.splice(0)) waiter.refused(error);
  }
}
