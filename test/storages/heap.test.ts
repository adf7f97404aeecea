import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Heap, NOWHERE } from "../../src/storages/memory/heap.ts";

interface Item {
  key: number;
  readonly id: number;
  slot: number;
}

const first = (a: Item, b: Item) => a.key - b.key || a.id - b.id;

describe("a heap", () => {
  it("has the first at hand, whatever is put in, taken out or moved", () => {
    const act = fc.record({
      kind: fc.constantFrom("add", "add", "remove", "move", "shift"),
      pick: fc.nat(),
      key: fc.nat({ max: 20 }),
    });
    fc.assert(
      fc.property(fc.array(act, { maxLength: 120, size: "max" }), (acts) => {
        const heap = new Heap<Item>(first);
        const items: Item[] = [];
        for (const [id, { kind, pick, key }] of acts.entries()) {
          const item = kind === "shift" ? heap.first : items[pick % Math.max(1, items.length)];
          if (kind === "add") {
            const added = { key, id, slot: NOWHERE };
            heap.add(added);
            items.push(added);
          } else if (item !== undefined && kind === "move") {
            item.key = key;
            heap.moved(item);
          } else if (item !== undefined) {
            heap.remove(item);
            expect(item.slot).toBe(NOWHERE);
            items.splice(items.indexOf(item), 1);
          }
          expect(heap.first).toBe(items.toSorted(first)[0]);
          expect(heap.size).toBe(items.length);
        }
        const inside = [...heap];
        expect(inside.toSorted(first)).toEqual(items.toSorted(first));
        for (const [place, item] of inside.entries()) expect(item.slot).toBe(place);
      }),
      { numRuns: 300 },
    );
  });
});
