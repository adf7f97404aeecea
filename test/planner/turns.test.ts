import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { byTurn, takeTurns, unitsOf } from "../../src/planner/turns.ts";

interface Lane {
  readonly id: number;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  readonly turn: number;
  readonly waiting: number;
}

/** Lanes of three types, one for each type, priority and group. Few turns, so that many are equal. */
const lanes: fc.Arbitrary<Lane[]> = fc
  .uniqueArray(
    fc.record({
      type: fc.constantFrom("a", "b", "c"),
      priority: fc.integer({ min: 0, max: 2 }),
      group: fc.constantFrom(null, "", "g", "h", "i"),
      turn: fc.nat(5),
      waiting: fc.integer({ min: 1, max: 6 }),
    }),
    { selector: ({ type, priority, group }) => JSON.stringify([type, priority, group]), maxLength: 24 },
  )
  .map((found) => found.map((lane, id) => ({ ...lane, id }))); // oxlint-disable-line no-map-spread

const keyOf = ({ priority, group }: Pick<Lane, "priority" | "group">) => JSON.stringify([priority, group]);

/**
 * The reference, one job at a time: the first of all lanes with jobs; its unit starts one, and all lanes of the
 * unit go to the end. Returns how many each unit starts, in the order of their last turns.
 */
function oneByOne(all: readonly Lane[], want: number): [string, number][] {
  const left = new Map([...Map.groupBy(all, keyOf)].map(([key, own]) => [key, waitingIn(own)]));
  const turns = new Map(all.map((lane) => [lane, lane.turn]));
  const taken = new Map<string, number>();
  for (let i = 0; i < want; i++) {
    const next = all
      .filter((lane) => left.get(keyOf(lane))! > 0)
      .toSorted((a, b) => b.priority - a.priority || turns.get(a)! - turns.get(b)! || a.id - b.id)[0];
    if (next === undefined) break;
    const key = keyOf(next);
    left.set(key, left.get(key)! - 1);
    for (const lane of all) if (keyOf(lane) === key) turns.set(lane, 1_000 + i);
    const count = taken.get(key) ?? 0;
    taken.delete(key);
    taken.set(key, count + 1);
  }
  return [...taken];
}

const waitingIn = (own: readonly Lane[]) => own.reduce((sum, { waiting }) => sum + waiting, 0);

function batch(all: readonly Lane[], want: number): [string, number][] {
  return takeTurns(unitsOf(all), want).map(({ unit, take }) => [keyOf(unit.lanes[0]!), take]);
}

const byUnit = (taken: readonly [string, number][]) => new Map(taken);

describe("turns", () => {
  it("turns for many jobs give the same as one job at a time", () => {
    fc.assert(
      fc.property(lanes, fc.nat(30), (all, want) => {
        expect(byUnit(batch(all, want))).toEqual(byUnit(oneByOne(all, want)));
      }),
      { numRuns: 2_000 },
    );
  });

  it("turns for n jobs need no more than the first n lanes of each type", () => {
    fc.assert(
      fc.property(lanes, fc.nat(12), (all, want) => {
        const types = [...Map.groupBy(all, ({ type }) => type).values()];
        const seen = types.flatMap((own) => own.toSorted(byTurn).slice(0, want + 1));
        expect(batch(seen, want)).toEqual(batch(all, want));
        // And whether there is more than was wanted.
        expect(waitingIn(seen) > want).toBe(waitingIn(all) > want);
      }),
      { numRuns: 5_000 },
    );
  });

  it("a group has one turn, however many types its jobs have", () => {
    fc.assert(
      fc.property(lanes, (all) => {
        const units = unitsOf(all);
        expect(units.flatMap((unit) => unit.lanes).toSorted((a, b) => a.id - b.id)).toEqual(all);
        expect(new Set(units.map(({ lanes: own }) => keyOf(own[0]!))).size).toBe(units.length);
        expect(units).toEqual(units.toSorted(byTurn));
        for (const { lanes: own, priority, turn, waiting } of units) {
          expect(own.every((lane) => keyOf(lane) === keyOf(own[0]!))).toBe(true);
          expect({ priority, turn, waiting }).toEqual({
            priority: own[0]!.priority,
            turn: Math.min(...own.map((lane) => lane.turn)),
            waiting: waitingIn(own),
          });
        }
      }),
    );
  });

  it("units of a priority are returned in the order of their last turn", () => {
    const a = { id: 1, priority: 0, turn: 1, waiting: 1 };
    const b = { id: 2, priority: 0, turn: 2, waiting: 3 };
    const c = { id: 3, priority: 0, turn: 3, waiting: 2 };
    expect(takeTurns([a, b, c], 4).map(({ unit, take }) => [unit.id, take])).toEqual([
      [1, 1],
      [3, 1],
      [2, 2],
    ]);
    expect(takeTurns([a, b, c], 3).map(({ unit }) => unit.id)).toEqual([1, 2, 3]);
  });

  it("turns cost little for many units and for one long unit", () => {
    const many = Array.from({ length: 10_000 }, (_, id) => ({ id, priority: 0, turn: id, waiting: 1_000_000 }));
    expect(takeTurns(many, 10_000)).toHaveLength(10_000);
    expect(takeTurns([many[0]!], 1_000_000)).toEqual([{ unit: many[0], take: 1_000_000 }]);
  });
});
