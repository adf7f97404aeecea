import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byTurn, takeTurns } from "../../src/storage/turns.ts";

interface Lane {
  id: number;
  priority: number;
  turn: number;
  waiting: number;
}

const lanes = fc
  .array(fc.record({ priority: fc.integer({ min: 0, max: 2 }), turn: fc.nat(5), waiting: fc.nat(6) }), { maxLength: 8 })
  .map((found) => found.map((lane, id) => ({ ...lane, id })).toSorted(byTurn)); // oxlint-disable-line no-map-spread

/** One job at a time, the plainest way: the first lane that has something, which then goes to the end. */
function oneByOne(all: readonly Lane[], want: number): Map<number, number> {
  const left = all.map((lane) => ({ lane, waiting: lane.waiting, turn: lane.turn }));
  const taken = new Map<number, number>();
  for (let i = 0; i < want; i++) {
    const next = left
      .filter(({ waiting }) => waiting > 0)
      .toSorted((a, b) => b.lane.priority - a.lane.priority || a.turn - b.turn || a.lane.id - b.lane.id)[0];
    if (next === undefined) break;
    next.waiting -= 1;
    next.turn = 1_000 + i;
    taken.set(next.lane.id, (taken.get(next.lane.id) ?? 0) + 1);
  }
  return taken;
}

describe("turns", () => {
  it("give the same as taking one job at a time", () => {
    fc.assert(
      fc.property(lanes, fc.nat(20), (all, want) => {
        const taken = takeTurns(all, want);
        expect(new Map(taken.map(({ lane, take }) => [lane.id, take]))).toEqual(oneByOne(all, want));
      }),
      { numRuns: 2_000 },
    );
  });

  it("are answered in the order in which lanes of a priority had their last turn", () => {
    const a = { id: 1, priority: 0, turn: 1, waiting: 1 };
    const b = { id: 2, priority: 0, turn: 2, waiting: 3 };
    const c = { id: 3, priority: 0, turn: 3, waiting: 2 };
    expect(takeTurns([a, b, c], 4).map(({ lane, take }) => [lane.id, take])).toEqual([
      [1, 1],
      [3, 1],
      [2, 2],
    ]);
    expect(takeTurns([a, b, c], 3).map(({ lane }) => lane.id)).toEqual([1, 2, 3]);
  });

  it("cost little for many lanes and for one long lane", () => {
    const many = Array.from({ length: 10_000 }, (_, id) => ({ id, priority: 0, turn: id, waiting: 1_000_000 }));
    expect(takeTurns(many, 10_000)).toHaveLength(10_000);
    expect(takeTurns([many[0]!], 1_000_000)).toEqual([{ lane: many[0], take: 1_000_000 }]);
  });
});
