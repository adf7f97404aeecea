import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Heap, NOWHERE } from "../../src/storages/memory/heap.ts";
import { type Linked, Sequence } from "../../src/storages/memory/sequence.ts";

interface Item extends Linked<Item> {
  key: number;
  readonly id: number;
}

const first = (a: Item, b: Item) => a.key - b.key || a.id - b.id;

const newItem = (key: number, id: number): Item => ({ key, id, slot: NOWHERE, before: undefined, after: undefined });

describe.each([
  { name: "a heap", make: () => new Heap<Item>(first) },
  { name: "a sequence", make: () => new Sequence<Item>(first) },
])("$name", ({ make }) => {
  it("the heap has its first element at hand, whatever is put in, taken out or moved", () => {
    const act = fc.record({
      kind: fc.constantFrom("add", "add", "remove", "move", "last", "shift"),
      pick: fc.nat(),
      key: fc.nat({ max: 20 }),
    });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 120, size: "max" }), (acts) => {
        const ordered = make();
        const items: Item[] = [];
        for (const [id, { kind, pick, key }] of acts.entries()) {
          const item = kind === "shift" ? ordered.first : items[pick % Math.max(1, items.length)];
          if (kind === "add") {
            const added = newItem(key, id);
            ordered.add(added);
            items.push(added);
          } else if (item !== undefined && (kind === "move" || kind === "last")) {
            item.key = kind === "move" ? key : 20;
            ordered.moved(item);
          } else if (item !== undefined) {
            ordered.remove(item);
            expect(item.slot).toBe(NOWHERE);
            items.splice(items.indexOf(item), 1);
          }
          expect(ordered.first).toBe(items.toSorted(first)[0]);
          expect(ordered.size).toBe(items.length);
        }
        const inside = [...ordered];
        expect(inside.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(items.map(({ id }) => id));
        if (ordered instanceof Heap) for (const [place, item] of inside.entries()) expect(item.slot).toBe(place);
      }),
      { numRuns: 300 },
    );
  });
});

it("a sequence compares as often for 10,000 things as for ten, while the first one moves to the end", () => {
  const comparisons = [10, 10_000].map((size) => {
    let count = 0;
    const sequence = new Sequence<Item>((a, b) => {
      count += 1;
      return first(a, b);
    });
    for (let id = 0; id < size; id++) sequence.add(newItem(0, id));
    count = 0;
    for (let turn = 1; turn <= 100; turn++) {
      const item = sequence.first!;
      item.key = turn;
      sequence.moved(item);
    }
    return count;
  });
  expect(comparisons[1]).toBe(comparisons[0]);
});
