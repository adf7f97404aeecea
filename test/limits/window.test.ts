import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  cancelStart,
  createLog,
  callStart,
  recordAlone,
  recordStart,
  settleStart,
  type StartEntry,
  viewOf,
  windowUsed,
  windowWait,
} from "../../src/limits/window.ts";
import { NEVER } from "../../src/limits/wait.ts";

/** The reference count: every start, its weight, and which starts are inside the window. */
class Model {
  readonly starts: { at: number; weight: number }[] = [];

  used(now: number, windowMs: number): number {
    return this.starts.reduce((sum, { at, weight }) => (now - at < windowMs ? sum + weight : sum), 0);
  }

  wait(now: number, windowMs: number, max: number, weight: number): number {
    if (weight > max) return NEVER;
    const instants = [0, ...this.starts.map(({ at }) => at + windowMs - now).filter((t) => t > 0)].toSorted(
      (a, b) => a - b,
    );
    return instants.find((t) => this.used(now + t, windowMs) + weight <= max) ?? Number.NaN;
  }
}

const rule = fc.record({ max: fc.integer({ min: 1, max: 12 }), windowMs: fc.integer({ min: 1, max: 100 }) });
const arrival = fc.record({
  after: fc.oneof({ weight: 3, arbitrary: fc.integer({ min: 0, max: 5 }) }, fc.integer({ min: 0, max: 250 })),
  weight: fc.integer({ min: 1, max: 13 }),
});

describe("window", () => {
  it("a window never counts more than `max`, whatever weights arrive", () => {
    fc.assert(
      fc.property(rule, fc.array(arrival, { maxLength: 200 }), ({ max, windowMs }, arrivals) => {
        const log = createLog();
        const view = viewOf(log, windowMs);
        const granted: { at: number; weight: number }[] = [];
        let now = 0;
        for (const { after, weight } of arrivals) {
          now += after;
          if (windowWait(log, view, max, now, weight) !== 0) continue;
          recordStart(log, now, weight);
          granted.push({ at: now, weight });
        }
        for (const { at } of granted) {
          const inside = granted.filter((start) => start.at > at - windowMs && start.at <= at);
          expect(inside.reduce((sum, { weight }) => sum + weight, 0)).toBeLessThanOrEqual(max);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("a window refuses until exactly the promised instant, then grants", () => {
    fc.assert(
      fc.property(rule, fc.array(arrival, { maxLength: 60 }), ({ max, windowMs }, arrivals) => {
        const log = createLog();
        const view = viewOf(log, windowMs);
        let now = 0;
        for (const { after, weight } of arrivals) {
          now += after;
          const wait = windowWait(log, view, max, now, weight);
          if (weight > max) {
            expect(wait).toBe(NEVER);
            continue;
          }
          if (wait > 0) {
            expect(windowWait(log, view, max, now + wait - 1, weight)).toBe(1);
            expect(windowWait(log, view, max, now + wait, weight)).toBe(0);
            now += wait;
          }
          recordStart(log, now, weight);
        }
      }),
      { numRuns: 2_000 },
    );
  });

  it("a window is never over by the true clock when the clock it reads is set back and forth", () => {
    const step = fc.record({ after: fc.integer({ min: 0, max: 40 }), back: fc.integer({ min: 0, max: 150 }) });
    fc.assert(
      fc.property(rule, fc.array(step, { maxLength: 150 }), ({ max, windowMs }, steps) => {
        const log = createLog();
        const view = viewOf(log, windowMs);
        const granted: number[] = [];
        let real = 0;
        let offset = 0;
        for (const { after, back } of steps) {
          real += after;
          if (back > 100) offset -= back; // set back; never forwards beyond the truth
          const reading = real + offset;
          if (windowWait(log, view, max, reading, 1) !== 0) continue;
          recordStart(log, reading, 1);
          granted.push(real);
        }
        for (let i = max; i < granted.length; i++)
          expect(granted[i]! - granted[i - max]!).toBeGreaterThanOrEqual(windowMs);
        // Nothing is left behind when all of it has expired.
        expect(windowUsed(log, view, real + 10 * windowMs)).toBe(0);
      }),
      { numRuns: 2_000 },
    );
  });

  it("a window loses no start and keeps no expired start when the clock runs ahead and is set back", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    recordStart(log, 5, 1);
    expect(windowUsed(log, view, 1_000)).toBe(0);
    recordStart(log, 5.05, 1); // by this reading it could share the entry that has left the window by the last one
    expect(windowUsed(log, view, 6)).toBe(1);
    expect(windowUsed(log, view, 1_000)).toBe(0);
  });

  it("a log with several windows agrees with a full recount under starts, cancels, settles and delays in any order", () => {
    const commands = fc.oneof(
      fc.record({
        kind: fc.constant("start" as const),
        after: fc.integer({ min: 0, max: 30 }),
        weight: fc.integer({ min: 1, max: 5 }),
        alone: fc.boolean(),
      }),
      fc.record({ kind: fc.constant("cancel" as const), which: fc.nat(20) }),
      fc.record({ kind: fc.constant("settle" as const), which: fc.nat(20), weight: fc.integer({ min: 0, max: 9 }) }),
      fc.record({ kind: fc.constant("wait" as const), after: fc.integer({ min: 0, max: 120 }) }),
    );
    fc.assert(
      fc.property(fc.array(commands, { maxLength: 120 }), (list) => {
        const log = createLog();
        const views = [20, 50, 100].map((windowMs) => viewOf(log, windowMs));
        const model = new Model();
        const entries: { entry: StartEntry; start: { at: number; weight: number }; expired: number }[] = [];
        let now = 0;
        for (const command of list) {
          if (command.kind === "start") {
            now += command.after;
            const start = { at: now, weight: command.weight };
            model.starts.push(start);
            const record = command.alone ? recordAlone : recordStart;
            entries.push({ entry: record(log, now, command.weight), start, expired: 0 });
          } else if (command.kind === "wait") {
            now += command.after;
          } else {
            const chosen = entries[command.which % Math.max(1, entries.length)];
            if (chosen === undefined) continue;
            const longest = 100;
            if (command.kind === "cancel") {
              cancelStart(chosen.entry);
              if (now - chosen.start.at < longest) chosen.start.weight = 0;
              // A permit never uses an entry again after it was cancelled.
              entries.splice(entries.indexOf(chosen), 1);
            } else {
              const used = command.weight;
              settleStart(chosen.entry, now, used);
              if (now - chosen.start.at < longest) {
                chosen.start.weight = Math.max(0, used - chosen.expired);
              } else {
                chosen.expired += chosen.start.weight;
                chosen.start = { at: now, weight: Math.max(0, used - chosen.expired) };
                if (chosen.start.weight > 0) model.starts.push(chosen.start);
                else chosen.start.at = Number.NEGATIVE_INFINITY;
              }
            }
          }
          for (const view of views) {
            expect(windowUsed(log, view, now)).toBe(model.used(now, view.windowMs));
            for (const max of [0, 1, 6, 20]) {
              for (const weight of [1, 4]) {
                expect(windowWait(log, view, max, now, weight)).toBe(model.wait(now, view.windowMs, max, weight));
              }
            }
          }
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it("a log drops entries that no window can see, and frees the memory of a burst", () => {
    const log = createLog();
    const view = viewOf(log, 10);
    for (let i = 0; i < 5_000; i++) recordAlone(log, 0, 1);
    expect(log.at.length).toBe(8_192);
    expect(windowUsed(log, view, 10)).toBe(0);
    expect(log.at.length).toBe(16);
    for (let now = 10; now < 5_000; now++) {
      expect(windowWait(log, view, 10, now, 1)).toBe(0);
      recordStart(log, now, 1);
    }
    expect(log.at.length).toBe(16);
  });

  it("a window that is longer than what the log remembers counts as full", () => {
    const log = createLog();
    const short = viewOf(log, 10);
    for (let i = 0; i < 16; i++) recordAlone(log, 0, 1);
    expect(windowUsed(log, short, 20)).toBe(0);
    recordStart(log, 20, 1); // the ring is full, and no view sees the first entries: they are dropped
    const long = viewOf(log, 100);
    expect(windowWait(log, long, 5, 30, 1)).toBe(70);
    expect(windowWait(log, long, 5, 99, 1)).toBe(1);
    expect(windowWait(log, long, 5, 100, 1)).toBe(0);
  });

  it("a start counts from the instant of its call, and the starts around it keep theirs", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    const first = recordStart(log, 0, 1);
    recordStart(log, 0.01, 1); // shares the entry of the first
    const third = recordStart(log, 5, 1);
    callStart(third, 7);
    callStart(first, 50);
    expect(windowWait(log, view, 3, 60, 1)).toBeCloseTo(40.01, 9);
    expect(windowWait(log, view, 2, 60, 1)).toBe(47);
    expect(windowWait(log, view, 1, 60, 1)).toBe(90);
    expect(windowUsed(log, view, 120)).toBe(1);
    cancelStart(first);
    expect(windowUsed(log, view, 120)).toBe(0);
  });

  it("a start whose grant had left the window before its call counts from its call", () => {
    const log = createLog();
    const view = viewOf(log, 10);
    const late = recordStart(log, 0, 2);
    expect(windowUsed(log, view, 20)).toBe(0);
    callStart(late, 20);
    expect(windowUsed(log, view, 20)).toBe(2);
    expect(windowWait(log, view, 2, 25, 1)).toBe(5);
    cancelStart(late);
    expect(windowUsed(log, view, 25)).toBe(0);
  });

  it("a late call does not delay the starts that share its entry", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    recordStart(log, 0, 1);
    const late = recordStart(log, 0.01, 1);
    callStart(late, 50);
    expect(windowWait(log, view, 2, 60, 1)).toBeCloseTo(40.01, 9);
    expect(windowWait(log, view, 1, 60, 1)).toBe(90);
  });

  it("the size of a log is bounded by time and not by `max`: a million starts in a window", () => {
    const log = createLog();
    const view = viewOf(log, 100);
    for (let i = 0; i < 1_000_000; i++) recordStart(log, i / 10_000, 1);
    expect(windowUsed(log, view, 99.9999)).toBe(1_000_000);
    expect(log.tail - log.head).toBeLessThanOrEqual(1_001);
    expect(windowUsed(log, view, 150)).toBeLessThanOrEqual(501_000);
    expect(windowUsed(log, view, 150)).toBeGreaterThanOrEqual(500_000 - 1);
  });

  it("starts that are hardly apart share an entry: never over, and hardly later", () => {
    const instant = fc.integer({ min: 0, max: 40 }).map((n) => n / 64);
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 30 }), fc.array(instant, { maxLength: 300 }), (max, gaps) => {
        const windowMs = 20;
        const log = createLog();
        const view = viewOf(log, windowMs);
        const model = new Model();
        let now = 0;
        for (const gap of gaps) {
          now += gap;
          const wait = windowWait(log, view, max, now, 1);
          const exact = model.wait(now, windowMs, max, 1);
          expect(wait).toBeGreaterThanOrEqual(exact);
          expect(wait).toBeLessThanOrEqual(exact + windowMs / 1_000);
          if (wait > 0) continue;
          recordStart(log, now, 1);
          model.starts.push({ at: now, weight: 1 });
        }
      }),
      { numRuns: 500 },
    );
  });

  it("a window is exact for fractional lengths and clock readings with many digits", () => {
    const log = createLog();
    const view = viewOf(log, 0.3);
    recordStart(log, 123_456_789.1, 1);
    expect(windowWait(log, view, 1, 123_456_789.39, 1)).toBeGreaterThan(0);
    expect(windowWait(log, view, 1, 123_456_789.41, 1)).toBe(0);
  });
});
