/** Random numbers that can be repeated: the same seed gives the same numbers. */
export class Seeded {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 (included) to 1 (excluded). */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let t = this.#state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from `least` to `most`. */
  integer(least: number, most: number): number {
    return least + Math.floor(this.next() * (most - least + 1));
  }

  /** One of them; undefined if there is none. */
  pick<T>(all: readonly T[]): T | undefined {
    return all[Math.floor(this.next() * all.length)];
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  /** Another source, which depends on this one and the name alone. */
  fork(name: string): Seeded {
    let hash = this.#state ^ 0x9e3779b9;
    for (const character of name) hash = Math.imul(hash ^ character.codePointAt(0)!, 0x01000193);
    return new Seeded(hash);
  }
}
