/** A place in a line. `leave` gives it up. */
export interface LimitWakeUps<T> {
  readonly taken: (value: T) => void;
  readonly refused: (error: unknown) => void;
}

/** So many asks are given up at most: each may still take a place in a line elsewhere. */
const MOST_GIVEN_UP = 2;

/**
 * Those who wait for a connection, in order. What was asked for and comes when nobody waits any more is kept for nobody; but
 * what is still on its way serves whoever waits next, so that no line grows elsewhere because people gave up here.
 */
export class Line<T> {
  readonly #ask: () => Promise<T>;
  readonly #unwanted: (value: T) => void;
  readonly #places: LimitWakeUps<T>[] = [];
  /** What is on its way, and may still come. */
  readonly #asks = new Set<object>();
  /** What nobody counts on any more. */
  readonly #givenUp = new Set<object>();

  /** `unwanted`: takes what nobody waits for. */
  constructor(ask: () => Promise<T>, unwanted: (value: T) => void) {
    this.#ask = ask;
    this.#unwanted = unwanted;
  }

  join(place: LimitWakeUps<T>, first: boolean): void {
    if (first) this.#places.unshift(place);
    else this.#places.push(place);
    if (this.#asks.size >= this.#places.length) return;
    const ask = {};
    this.#asks.add(ask);
    // Also for those who throw before they have a promise to give.
    new Promise<T>((answer) => answer(this.#ask())).then(
      (value) => {
        this.#asks.delete(ask);
        this.#givenUp.delete(ask);
        const next = this.#places.shift();
        if (next === undefined) this.#unwanted(value);
        else next.taken(value);
      },
      (error: unknown) => {
        this.#asks.delete(ask);
        this.#givenUp.delete(ask);
        this.#places.shift()?.refused(error);
      },
    );
  }

  /**
   * `late`: it has waited for so long that what is on its way may never come. Who comes next asks anew; but nobody asks for
   * ever more.
   */
  leave(place: LimitWakeUps<T>, late: boolean): void {
    const at = this.#places.indexOf(place);
    if (at === -1) return;
    this.#places.splice(at, 1);
    const [oldest] = this.#asks;
    if (!late || oldest === undefined || this.#givenUp.size >= MOST_GIVEN_UP) return;
    this.#asks.delete(oldest);
    this.#givenUp.add(oldest);
  }

  /** Turns everybody away. */
  close(error: unknown): void {
    for (const place of this.#places.splice(0)) place.refused(error);
  }
}
