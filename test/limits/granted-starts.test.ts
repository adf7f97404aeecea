import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { expectedDelay, lookAgainIn } from "../../src/limits/look-again.ts";
import { callSpaced, cancelSpaced, createSpacing, grantSpaced, spacingWait } from "../../src/limits/spacing.ts";
import {
  callStart,
  cancelStart,
  createLog,
  grantStart,
  recordStart,
  settleStart,
  type StartEntry,
  viewOf,
  windowUsed,
  windowWait,
} from "../../src/limits/window.ts";
import { worstWindow } from "../limiter/support.ts";

describe("when to look again at a start that is not confirmed", () => {
  it("an unconfirmed start is looked at at the expected instant, then ever less often, and last at the certain instant", () => {
    const looks: number[] = [];
    for (let now = 0; now < 3_000;) {
      const wait = lookAgainIn(now, 1_000, 3_000 - now);
      now += wait;
      looks.push(now);
    }
    expect(looks).toEqual([1_000, 1_250, 1_750, 2_750, 3_000]);
  });

  it("the next look is always later than now, and never later than the certain instant", () => {
    const ms = fc.double({ min: 0.1, max: 1e6, noNaN: true });
    fc.assert(
      fc.property(fc.double({ min: -1e6, max: 1e6, noNaN: true }), ms, ms, (age, windowMs, certainIn) => {
        const wait = lookAgainIn(age, windowMs, certainIn);
        expect(wait).toBeGreaterThan(0);
        expect(wait).toBeLessThanOrEqual(certainIn);
      }),
    );
  });

  it("many unconfirmed starts take few looks", () => {
    const ages = Array.from({ length: 300 }, (_, i) => i * 2);
    let looks = 0;
    for (let now = 1_000; now < 3_000; looks++) {
      now += Math.min(
        ...ages
          .map((grantedAt) => lookAgainIn(now - grantedAt, 1_000, 3_000 + grantedAt - now))
          .filter((wait) => wait > 0),
      );
    }
    expect(looks).toBeLessThan(320);
  });

  it("a long `grantTtl` takes few looks", () => {
    let looks = 0;
    for (let now = 0; now < 60_100; looks++) now += lookAgainIn(now, 100, 60_100 - now);
    expect(looks).toBeLessThan(15);
  });

  it("a call is expected as late as the latest one was, within a quarter of the window", () => {
    expect(expectedDelay(40, 1_000)).toBe(40);
    expect(expectedDelay(900, 1_000)).toBe(250);
    expect(expectedDelay(-1, 1_000)).toBe(0);
  });
});

describe("a granted start", () => {
  it("a granted start leaves no window before it is called", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const entry = grantStart(log, 0, 1);
    expect(windowUsed(log, view, 10_000)).toBe(1);
    callStart(entry, 10_000);
    expect(windowUsed(log, view, 10_099)).toBe(1);
    expect(windowUsed(log, view, 10_100)).toBe(0);
  });

  it("a granted start that is never confirmed counts from its latest possible instant", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    grantStart(log, 0, 2, 50);
    expect(windowUsed(log, view, 149)).toBe(2);
    expect(windowUsed(log, view, 150)).toBe(0);
  });

  it("a granted start that was called too late moves later, even after it has left the window", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const entry = grantStart(log, 0, 2, 50);
    expect(windowUsed(log, view, 200)).toBe(0);
    callStart(entry, 210);
    expect(windowUsed(log, view, 309)).toBe(2);
    expect(windowUsed(log, view, 310)).toBe(0);
  });

  it("a granted start that is confirmed after it has left the window counts once", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const entry = grantStart(log, 0, 2, 50);
    expect(windowUsed(log, view, 155)).toBe(0);
    recordStart(log, 160, 1);
    settleStart(recordStart(log, 200, 0), 200, 0); // forgets what no window sees any more
    callStart(entry, 20);
    expect(windowUsed(log, view, 200)).toBe(1);
  });

  it("a granted start can be cancelled and settled before it is called", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const [first, second] = [grantStart(log, 0, 3), grantStart(log, 0, 4)];
    settleStart(second, 10, 9);
    expect(windowUsed(log, view, 10)).toBe(12);
    cancelStart(first);
    cancelStart(first);
    callStart(first, 20);
    expect(windowUsed(log, view, 20)).toBe(9);
    callStart(second, 30);
    settleStart(second, 40, 1);
    expect(windowUsed(log, view, 129)).toBe(1);
    expect(windowUsed(log, view, 130)).toBe(0);
  });

  it("a refusal waits for an uncalled start until its call is expected, in order with the called ones", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const early = grantStart(log, 0, 1);
    recordStart(log, 40, 1);
    // The start that was granted first leaves first, though it is not called yet.
    expect(windowWait(log, view, 2, 50, 1)).toBe(50);
    expect(windowWait(log, view, 2, 50, 2)).toBe(90);
    expect(windowWait(log, view, 2, 110, 1)).toBe(25);
    callStart(early, 120);
    expect(windowWait(log, view, 2, 130, 1)).toBe(10);
    expect(windowWait(log, view, 2, 130, 2)).toBe(90);
  });

  it("a window is never over by the instants of the calls, whatever is granted, called, cancelled and lost", () => {
    const action = fc.record({
      after: fc.integer({ min: 0, max: 30 }),
      what: fc.constantFrom("grant", "grant", "grant", "call", "call", "cancel", "lose"),
      which: fc.nat(20),
    });
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 60 }),
        fc.array(action, { maxLength: 150 }),
        (max, windowMs, actions) => {
          const ttl = 80;
          const log = createLog();
          const view = viewOf(log, windowMs);
          const open: { readonly entry: StartEntry; readonly until: number }[] = [];
          const calls: number[] = [];
          let now = 0;
          for (const { after, what, which } of actions) {
            now += after;
            const at = open.length === 0 ? -1 : which % open.length;
            const one = open[at];
            if (what === "grant" && windowWait(log, view, max, now, 1) === 0) {
              open.push({ entry: grantStart(log, now, 1, now + ttl), until: now + ttl });
            } else if (what === "call" && one !== undefined && now <= one.until) {
              calls.push(now);
              callStart(one.entry, now);
            } else if (what === "lose" && one !== undefined && now <= one.until) {
              // It was called, and the confirmation never comes.
              calls.push(now);
            } else if (what === "cancel" && one !== undefined) cancelStart(one.entry);
            if (what !== "grant") open.splice(at, at < 0 ? 0 : 1);
          }
          expect(worstWindow(calls, windowMs)).toBeLessThanOrEqual(max);
        },
      ),
      { numRuns: 2_000 },
    );
  });
});

describe("a granted start with spacing", () => {
  it("no start follows a spaced start before that is called", () => {
    const state = createSpacing();
    const start = grantSpaced(state, 0, 100);
    expect([spacingWait(state, 0), spacingWait(state, 100), spacingWait(state, 5_000) > 0]).toEqual([100, 25, true]);
    callSpaced(state, start, 30);
    expect([spacingWait(state, 50), spacingWait(state, 129), spacingWait(state, 130)]).toEqual([80, 1, 0]);
  });

  it("a start follows at once when the spaced start is cancelled or has no gap", () => {
    const state = createSpacing();
    cancelSpaced(state, grantSpaced(state, 0, 100));
    expect(spacingWait(state, 0)).toBe(0);
    grantSpaced(state, 0, 0);
    expect(spacingWait(state, 0)).toBe(0);
  });
});
