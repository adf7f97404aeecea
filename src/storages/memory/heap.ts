/** An item of a heap. It has its index, so that any item can be removed or moved. */
export interface Slotted {
  /** Its index in the heap; `NOWHERE`: it is in none. Only the heap writes it. */
  slot: number;
}

export const NOWHERE = -1;

/** A binary heap. Adding, removing and moving an item cost O(log n). */
export class Heap<T extends Slotted> {
  readonly #items: T[] = [];
  readonly #compare: (a: T, b: T) => number;

  /** `compare` is below 0 if `a` comes first. If it changes for an item inside, `moved` has to be called. */
  constructor(compare: (a: T, b: T) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#items.length;
  }

  get first(): T | undefined {
    return this.#items[0];
  }

  add(item: T): void {
    item.slot = this.#items.length;
    this.#items.push(item);
    this.#rise(item);
  }

  /** The item must be inside. */
  remove(item: T): void {
    const { slot } = item;
    const last = this.#items.pop()!;
    item.slot = NOWHERE;
    if (last === item) return;
    this.#items[slot] = last;
    last.slot = slot;
    this.moved(last);
  }

  /** The item compares otherwise than before. */
  moved(item: T): void {
    this.#rise(item);
    this.#sink(item);
  }

  /** Many items compare otherwise than before. */
  reorder(): void {
    for (let at = (this.#items.length >> 1) - 1; at >= 0; at--) this.#sink(this.#items[at]!);
  }

  /** All items, in no order. */
  [Symbol.iterator](): Iterator<T> {
    return this.#items[Symbol.iterator]();
  }

  #rise(item: T): void {
    const items = this.#items;
    let at = item.slot;
    while (at > 0) {
      const up = (at - 1) >> 1;
      const above = items[up]!;
      if (this.#compare(item, above) >= 0) break;
      items[at] = above;
      above.slot = at;
      at = up;
    }
    items[at] = item;
    item.slot = at;
  }

  /** All the way down, and then up again: most items that sink belong near the end, and a step down costs one comparison so. */
  #sink(item: T): void {
    const items = this.#items;
    const { length } = items;
    let at = item.slot;
    for (let down = 2 * at + 1; down < length; down = 2 * at + 1) {
      if (down + 1 < length && this.#compare(items[down + 1]!, items[down]!) < 0) down += 1;
      const below = items[down]!;
      items[at] = below;
      below.slot = at;
      at = down;
    }
    item.slot = at;
    this.#rise(item);
  }
}
