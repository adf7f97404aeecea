/** Intervals in which jobs waited, in order and disjoint. */
export class Busy {
  readonly #from: number[] = [];
  readonly #to: number[] = [];
  /** How much of it there was before each of them. */
  readonly #before: number[] = [];
  #total = 0;

  /** They come in the order in which they begin, and may overlap. */
  add(from: number, to: number): void {
    if (to <= from) return;
    const last = this.#to.length - 1;
    if (last >= 0 && from <= this.#to[last]!) {
      this.#total += Math.max(0, to - this.#to[last]!);
      this.#to[last] = Math.max(this.#to[last]!, to);
      return;
    }
    this.#from.push(from);
    this.#to.push(to);
    this.#before.push(this.#total);
    this.#total += to - from;
  }

  get total(): number {
    return this.#total;
  }

  /** For how much of the time from `from` to `to` jobs waited. */
  within(from: number, to: number): number {
    return Math.max(0, this.#until(to) - this.#until(from));
  }

  #until(at: number): number {
    let low = 0;
    let high = this.#from.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#from[middle]! < at) low = middle + 1;
      else high = middle;
    }
    if (low === 0) return 0;
    return this.#before[low - 1]! + Math.min(at, this.#to[low - 1]!) - this.#from[low - 1]!;
  }
}
