import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { STORAGES } from "./support.ts";

const WINDOW_MS = 100;

/** Bursts just before and just after the edges of windows, where a fixed window lets twice as many through. */
const burst = fc.record({
  edge: fc.integer({ min: 1, max: 4 }),
  offset: fc.constantFrom(-1, -0.5, -0.001, 0, 0.001, 0.5, 1),
  calls: fc.integer({ min: 1, max: 6 }),
});

describe.each(STORAGES)("bursts around the edges of windows ($name)", ({ open, runs }) => {
  it("bursts never exceed a window, and are refused to the exact instant", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(burst, { minLength: 2, maxLength: 8 }),
        fc.integer({ min: 1, max: 4 }),
        async (bursts, max) => {
          const { storage, clock } = await open();
          const { rates } = storage;
          const granted: number[] = [];
          const inOrder = bursts
            .map(({ edge, offset, calls }) => ({ at: edge * WINDOW_MS + offset, calls }))
            .toSorted((a, b) => a.at - b.at);
          for (const { at, calls } of inOrder) {
            await clock.advance(Math.max(0, at - clock.now()));
            for (let call = 0; call < calls; call++) {
              const answer = await rates.tryRecordExecution("l", { maxExecutions: max, windowMs: WINDOW_MS });
              if (answer.granted) granted.push(clock.now());
              else expect(answer.retryInMs).toBeCloseTo(granted.at(-max)! + WINDOW_MS - clock.now(), 3);
            }
          }
          for (let i = max; i < granted.length; i++) {
            expect(granted[i]! - granted[i - max]!).toBeGreaterThanOrEqual(WINDOW_MS - 0.001);
          }
        },
      ),
      { numRuns: runs },
    );
  });
});
