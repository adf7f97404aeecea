import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { entriesWait, windowRoom } from "../../src/limits/entries.ts";
import { NEVER } from "../../src/limits/wait.ts";
import { createLog, recordAlone, viewOf, windowWait } from "../../src/limits/window.ts";

describe("a window over rows", () => {
  const start = fc.record({ after: fc.integer({ min: 0, max: 300 }), weight: fc.integer({ min: 1, max: 4 }) });
  const windowMs = 1_000;

  it("decides as the window over a ring does", () => {
    fc.assert(
      fc.property(
        fc.array(start, { maxLength: 20 }),
        fc.nat(600),
        fc.integer({ min: 1, max: 6 }),
        (starts, rest, weight) => {
          const log = createLog();
          const view = viewOf(log, windowMs);
          const rows: { at: number; weight: number }[] = [];
          let now = 0;
          for (const { after, weight: used } of starts) {
            now += after;
            recordAlone(log, now, used);
            rows.push({ at: now, weight: used });
          }
          now += rest;
          const inside = rows.filter(({ at }) => now - at < windowMs);
          for (const max of [0, 1, 5, 20]) {
            expect(entriesWait(inside, max, windowMs, now, weight)).toBe(windowWait(log, view, max, now, weight));
            const used = inside.reduce((sum, entry) => sum + entry.weight, 0);
            expect(windowRoom(inside, max, windowMs, now).free).toBe(Math.max(0, max - used));
          }
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it("tells never from not yet", () => {
    expect(entriesWait([], 2, windowMs, 0, 3)).toBe(NEVER);
    expect(windowRoom([{ at: 0, weight: 2 }], 2, windowMs, 400)).toEqual({ free: 0, nextIn: 600 });
    expect(windowRoom([], 2, windowMs, 400)).toEqual({ free: 2, nextIn: 0 });
  });
});
