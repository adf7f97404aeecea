import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  cancelStart,
  createLog,
  enterStart,
  reserveStart,
  settleStart,
  type StartEntry,
  viewOf,
  windowWait,
} from "../../src/limits/start-log.ts";
import { worstWindow } from "../limiter/support.ts";

describe("a log of starts that this process calls", () => {
  it("a start that is not called yet counts, and leaves no window before it is called", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const entry = reserveStart(log, 1);
    // It is called at 0 at the earliest, so there is nothing to look at before 100; then before 350, and so on.
    expect(windowWait(log, view, 1, 0, 1)).toBe(100);
    expect(windowWait(log, view, 1, 250, 1)).toBe(100);
    enterStart(entry, 260);
    expect(windowWait(log, view, 1, 350, 1)).toBe(10);
    expect(windowWait(log, view, 1, 360, 1)).toBe(0);
  });

  it("a refusal waits for called starts first, and for uncalled ones last", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    reserveStart(log, 1);
    enterStart(reserveStart(log, 2), 40);
    expect(windowWait(log, view, 3, 50, 2)).toBe(90);
    expect(windowWait(log, view, 3, 50, 3)).toBe(100);
  });

  it("a start can be cancelled and settled before it is called", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const [first, second] = [reserveStart(log, 3), reserveStart(log, 4)];
    settleStart(second, 10, 9);
    cancelStart(first);
    expect([windowWait(log, view, 10, 10, 1), windowWait(log, view, 10, 10, 2)]).toEqual([0, 100]);
    enterStart(second, 30);
    settleStart(second, 40, 1);
    expect([windowWait(log, view, 2, 40, 1), windowWait(log, view, 2, 40, 2)]).toEqual([0, 90]);
  });

  it("a window is never over by the instants of the calls, and no wait passes the instant at which a start fits", () => {
    const action = fc.record({
      after: fc.integer({ min: 0, max: 30 }),
      what: fc.constantFrom("take", "take", "take", "call", "call", "cancel"),
      which: fc.nat(20),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 60 }),
        fc.array(action, { maxLength: 150 }),
        (max, windowMs, actions) => {
          const log = createLog();
          const view = viewOf(log, windowMs);
          const open: StartEntry[] = [];
          const calls: number[] = [];
          let now = 0;
          for (const { after, what, which } of actions) {
            now += after;
            const wait = windowWait(log, view, max, now, 1);
            const uncalled = open.length;
            const inWindow = (at: number) => calls.filter((call) => at - call < windowMs).length;
            if (wait > 0) {
              // It is full now and would still be just before the wait ends, if nothing is cancelled.
              expect(inWindow(now) + uncalled).toBeGreaterThanOrEqual(max);
              expect(inWindow(now + wait - 0.5) + uncalled).toBeGreaterThanOrEqual(max);
            } else expect(inWindow(now) + uncalled).toBeLessThan(max);
            const entry = open[which % Math.max(1, uncalled)];
            if (what === "take" && wait === 0) open.push(reserveStart(log, 1));
            if (what === "take" || entry === undefined) continue;
            open.splice(open.indexOf(entry), 1);
            if (what === "cancel") cancelStart(entry);
            else {
              calls.push(now);
              enterStart(entry, now);
            }
          }
          expect(worstWindow(calls, windowMs)).toBeLessThanOrEqual(max);
        },
      ),
      { numRuns: 1_000 },
    );
  });
});
