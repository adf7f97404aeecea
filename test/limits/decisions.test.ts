import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { accepted, createAimd, markSaturated, refused } from "../../src/limits/aimd.ts";
import { both } from "../../src/limits/compose.ts";
import { createSlots, giveSlots, slotsWait, takeSlots } from "../../src/limits/concurrency.ts";
import { createHold, extendHold, holdWait } from "../../src/limits/hold.ts";
import {
  adaptiveGap,
  cancelSpaced,
  createDurations,
  createSpacing,
  evenInterval,
  recordDuration,
  recordSpaced,
  spacingWait,
} from "../../src/limits/spacing.ts";
import { NEVER, WHEN_RELEASED } from "../../src/limits/wait.ts";

describe("spacing", () => {
  it("spacing never grants two starts closer than the gap, and promises the exact instant", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 50 }), fc.array(fc.integer({ min: 0, max: 60 })), (gap, gaps) => {
        const state = createSpacing();
        let now = 0;
        let last = Number.NEGATIVE_INFINITY;
        for (const after of gaps) {
          now += after;
          const wait = spacingWait(state, now);
          if (wait > 0) expect(spacingWait(state, now + wait - 1)).toBe(1);
          now += wait;
          expect(spacingWait(state, now)).toBe(0);
          expect(now - last).toBeGreaterThanOrEqual(gap);
          recordSpaced(state, now, gap);
          last = now;
        }
      }),
    );
  });

  it("a cancelled start leaves no spacing behind", () => {
    const state = createSpacing();
    recordSpaced(state, 0, 50);
    const second = recordSpaced(state, 50, 50);
    cancelSpaced(state, second);
    cancelSpaced(state, second);
    expect(spacingWait(state, 51)).toBe(0);
  });

  it("spacing keeps the gap when the clock is set back", () => {
    const state = createSpacing();
    recordSpaced(state, 1_000, 50);
    expect(spacingWait(state, 900)).toBe(150);
    recordSpaced(state, 900, 50);
    expect(spacingWait(state, 1_000)).toBe(50);
  });

  it("`max` intervals never add up to less than the window, and hardly to more", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_000_000 }),
        fc.double({ min: 1e-3, max: 1e9, noNaN: true }),
        (max, windowMs) => {
          const interval = evenInterval(max, windowMs);
          // Exact arithmetic: the product of the two doubles against the window, as fractions.
          expect(exact(interval) * exact(max)).toBeGreaterThanOrEqual(exact(windowMs) * exact(1));
          expect(interval).toBeLessThanOrEqual((windowMs / max) * (1 + 4 * Number.EPSILON));
        },
      ),
    );
    expect(evenInterval(16, 1_000)).toBe(62.5);
    expect(evenInterval(60, 60_000)).toBe(1_000);
  });

  it("the adaptive gap is the interval less the average of the last durations, never below 0", () => {
    const durations = createDurations(2);
    expect(adaptiveGap(1_000, durations)).toBe(1_000);
    recordDuration(durations, 400);
    expect(adaptiveGap(1_000, durations)).toBe(600);
    recordDuration(durations, 600);
    expect(adaptiveGap(1_000, durations)).toBe(500);
    recordDuration(durations, 5_000);
    expect(adaptiveGap(1_000, durations)).toBe(0);
  });
});

/** A double as a whole number of 2^-1074: products and comparisons of these are exact. */
function exact(value: number): bigint {
  let exponent = 0;
  while (!Number.isInteger(value)) {
    value *= 2;
    exponent += 1;
  }
  return BigInt(value) << BigInt(1_100 - exponent);
}

describe("concurrency", () => {
  it("slots in use never exceed the maximum, and a release returns what was taken", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10 }), fc.array(fc.integer({ min: -5, max: 11 })), (max, moves) => {
        const slots = createSlots();
        const held: number[] = [];
        for (const move of moves) {
          if (move <= 0) {
            const weight = held.shift();
            if (weight !== undefined) giveSlots(slots, weight);
          } else {
            const wait = slotsWait(slots, max, move);
            expect(wait === NEVER).toBe(move > max);
            if (wait === 0) {
              takeSlots(slots, move);
              held.push(move);
            }
          }
          const sum = held.reduce((a, b) => a + b, 0);
          expect(slots.inUse).toBe(sum);
          expect(sum).toBeLessThanOrEqual(max);
        }
      }),
    );
  });

  it("a concurrency of 0 means paused: everything waits, nothing is impossible", () => {
    expect(slotsWait(createSlots(), 0, 1)).toBe(WHEN_RELEASED);
    expect(slotsWait(createSlots(), 0, 7)).toBe(WHEN_RELEASED);
  });
});

describe("hold", () => {
  it("a hold only ever moves later", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: -100, max: 1_000 }), { minLength: 1 }),
        fc.integer({ min: 0, max: 1_100 }),
        (untils, now) => {
          const hold = createHold();
          for (const until of untils) extendHold(hold, until);
          expect(holdWait(hold, now)).toBe(Math.max(0, Math.max(...untils) - now));
        },
      ),
    );
  });
});

describe("composition", () => {
  const wait = fc.oneof(
    fc.constant(0),
    fc.integer({ min: 1, max: 100 }),
    fc.constant(WHEN_RELEASED),
    fc.constant(NEVER),
  );

  it("the wait for several limits is the longest of them, in any order, unless one is never", () => {
    fc.assert(
      fc.property(wait, wait, wait, (a, b, c) => {
        expect(both(a, b)).toBe(both(b, a));
        expect(both(a, both(b, c))).toBe(both(both(a, b), c));
        expect(both(a, 0)).toBe(a);
        expect(both(a, b)).toBe([a, b].includes(NEVER) ? NEVER : Math.max(a, b));
      }),
    );
  });
});

describe("additive increase, multiplicative decrease", () => {
  const rule = { floor: 2, ceiling: 20, increase: 1, decrease: 0.5, windowMs: 1_000 };

  it("the allowance stays between floor and ceiling", () => {
    const event = fc.record({ after: fc.integer({ min: 0, max: 3_000 }), what: fc.constantFrom("use", "ok", "429") });
    fc.assert(
      fc.property(fc.array(event), (events) => {
        const state = createAimd(2, 0);
        let now = 0;
        for (const { after, what } of events) {
          now += after;
          if (what === "use") markSaturated(state);
          if (what === "ok") accepted(state, rule, now);
          if (what === "429") refused(state, rule, now, now);
          expect(state.allowance).toBeGreaterThanOrEqual(rule.floor);
          expect(state.allowance).toBeLessThanOrEqual(rule.ceiling);
        }
      }),
    );
  });

  it("the allowance grows once per window that was used up, and not while some was unused", () => {
    const state = createAimd(4, 0);
    accepted(state, rule, 1_500);
    expect(state.allowance).toBe(4);
    markSaturated(state);
    accepted(state, rule, 1_600);
    expect(state.allowance).toBe(5);
    markSaturated(state);
    accepted(state, rule, 2_599);
    expect(state.allowance).toBe(5);
    accepted(state, rule, 2_600);
    expect(state.allowance).toBe(6);
  });

  it("a burst of refusals cuts the allowance once: calls from before the cut are ignored", () => {
    const state = createAimd(16, 0);
    for (let i = 0; i < 10; i++) refused(state, rule, 100 + i, 50);
    expect(state.allowance).toBe(8);
    refused(state, rule, 200, 150);
    expect(state.allowance).toBe(4);
  });
});
