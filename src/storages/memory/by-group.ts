/** Values by priority and group. */
export class ByGroup<T> {
  readonly #priorities = new Map<number, Map<string | null, T>>();

  /** How many priorities have values. */
  get size(): number {
    return this.#priorities.size;
  }

  /** How many values a priority has. */
  count(priority: number): number {
    return this.#priorities.get(priority)?.size ?? 0;
  }

  /** The values of a priority, in no order. */
  at(priority: number): Iterable<T> {
    return this.#priorities.get(priority)?.values() ?? [];
  }

  get(priority: number, group: string | null): T | undefined {
    return this.#priorities.get(priority)?.get(group);
  }

  /** The values of higher priorities, in no order. */
  *above(priority: number): Iterable<T> {
    for (const [other, groups] of this.#priorities) if (other > priority) yield* groups.values();
  }

  set(priority: number, group: string | null, value: T): void {
    let groups = this.#priorities.get(priority);
    if (groups === undefined) this.#priorities.set(priority, (groups = new Map()));
    groups.set(group, value);
  }

  delete(priority: number, group: string | null): void {
    const groups = this.#priorities.get(priority);
    groups?.delete(group);
    if (groups?.size === 0) this.#priorities.delete(priority);
  }
}
