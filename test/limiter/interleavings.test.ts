import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { CompositeLimiter, ConcurrencyLimiter, limit } from "../../src/index.ts";
import { SixMethodLimiter } from "./support.ts";

describe("interleavings", () => {
  it("hundreds of concurrent callers with random awaits never pass a limit", async () => {
    await fc.assert(
      fc.asyncProperty(fc.infiniteStream(fc.nat(7)), fc.integer({ min: 1, max: 7 }), async (turns, max) => {
        const own = new SixMethodLimiter(max);
        for (const method of ["canProceed", "recordJobStart", "recordJobCompletion"] as const) {
          const original = own[method].bind(own) as () => Promise<never>;
          own[method] = async () => {
            for (let i = turns.next().value; i > 0; i--) await undefined;
            const answer = await original();
            for (let i = turns.next().value; i > 0; i--) await undefined;
            return answer;
          };
        }
        const concurrency = new ConcurrencyLimiter(3);
        const limiters = [
          own,
          new CompositeLimiter([own, concurrency]),
          new CompositeLimiter([concurrency, own]),
          concurrency,
        ];
        let byOwn = 0;
        let byConcurrency = 0;
        let worst = [0, 0];
        const run = limiters.map((limiter, i) =>
          limit(async () => {
            if (i < 3) byOwn += 1;
            if (i > 0) byConcurrency += 1;
            worst = [Math.max(worst[0]!, byOwn), Math.max(worst[1]!, byConcurrency)];
            for (let j = turns.next().value; j > 0; j--) await undefined;
            if (i < 3) byOwn -= 1;
            if (i > 0) byConcurrency -= 1;
          }, limiter),
        );
        const all: Promise<unknown>[] = [];
        for (let i = 0; i < 300; i++) {
          all.push(run[i % 4]!());
          for (let j = turns.next().value - 4; j > 0; j--) await undefined;
        }
        await Promise.all(all);
        expect(worst[0]).toBeLessThanOrEqual(max);
        expect(worst[1]).toBeLessThanOrEqual(3);
        expect([own.running, concurrency.running]).toEqual([0, 0]);
      }),
      { numRuns: 25 },
    );
  });
});
