import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  cancelCharge,
  correctCharge,
  countFailure,
  holdKey,
  countSuccess,
  chargeKey,
  recordRemaining,
  decideStart,
  type SlotsInUse,
  isKeyIdle,
  newKeyState,
  NO_SLOTS,
  type KeyDecision,
} from "../../src/limits/key-state.ts";
import { type BreakerRule, type Charge, type LimitRule, quotaOf } from "../../src/limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../src/limits/wait.ts";
import { createLog, recordAlone, viewOf, windowWait } from "../../src/limits/window.ts";
import { limitRule } from "../storages/jobs.ts";

const BREAKER: BreakerRule = { failures: 2, openMs: 100, probes: 1, kinds: null };
const ONE: Charge = { weight: 1, slots: 1 };

/** A limit for one group, kept in arrays. */
class Toy {
  readonly rule: LimitRule;
  readonly gauge = newKeyState();
  readonly starts: { at: number; weight: number }[] = [];
  holds: { readonly at: number; readonly slots: number; readonly until: number | null }[] = [];

  constructor(rule: LimitRule) {
    this.rule = rule;
  }

  held(now: number): SlotsInUse {
    const held = this.holds.filter(({ until }) => until === null || until > now);
    const { openUntil } = this.gauge;
    return {
      slots: held.reduce((sum, { slots }) => sum + slots, 0),
      probes: openUntil === null || now < openUntil ? 0 : held.filter(({ at }) => at >= openUntil).length,
      expiresIn: Math.min(WHEN_RELEASED, ...held.map(({ until }) => (until ?? WHEN_RELEASED) - now)),
    };
  }

  ask(charge: Charge, now: number): KeyDecision {
    return decideStart(this.rule, null, this.gauge, this.held(now), charge, now, (max, windowMs, weight) => {
      const log = createLog();
      const view = viewOf(log, windowMs);
      for (const start of this.starts) recordAlone(log, start.at, start.weight);
      return windowWait(log, view, max, now, weight);
    });
  }

  take(charge: Charge, now: number, until: number | null): void {
    chargeKey(this.gauge, charge, now);
    this.starts.push({ at: now, weight: charge.weight });
    this.holds.push({ at: now, slots: charge.slots, until });
  }
}

const rules = fc
  .record({
    max: fc.option(fc.integer({ min: 1, max: 6 })),
    windowMs: fc.constantFrom(10, 97),
    concurrency: fc.option(fc.integer({ min: 1, max: 4 })),
    everyMs: fc.option(fc.constantFrom(1, 13)),
    breaker: fc.option(fc.constant(BREAKER)),
  })
  .map(({ breaker, max, windowMs, ...rest }) =>
    limitRule("k", { ...rest, max, windowMs: max === null ? null : windowMs }, { breaker, weight: "n" }),
  );

const acts = fc.array(
  fc.record({
    act: fc.constantFrom("start", "start", "start", "start", "release", "hold", "tell", "fail", "succeed"),
    after: fc.constantFrom(0, 0, 1, 5, 40),
    weight: fc.integer({ min: 1, max: 4 }),
    ttl: fc.option(fc.constantFrom(3, 50)),
  }),
  { maxLength: 60, size: "max" },
);

describe("a gauge", () => {
  it("refuses until exactly the promised instant and then allows, whatever is in the way", () => {
    let exact = 0;
    fc.assert(
      fc.property(rules, acts, (rule, life) => {
        const toy = new Toy(rule);
        let now = 1_000;
        for (const { act, after, weight } of life) {
          now += after;
          const charge = rule.quota.max === null ? { weight: 1, slots: weight } : { weight, slots: 1 };
          if (act === "release") toy.holds.shift();
          else if (act === "hold") holdKey(toy.gauge, now + weight * 7);
          else if (act === "tell") recordRemaining(toy.gauge, weight - 1, weight * 9, now);
          else if (act === "fail" && rule.breaker !== null) countFailure(toy.gauge, rule.breaker, [], now, now);
          else if (act === "succeed") countSuccess(toy.gauge, now);
          if (act !== "start") continue;
          const { wait, reason } = toy.ask(charge, now);
          expect(reason === null).toBe(wait === 0);
          if (wait === 0) {
            toy.take(charge, now, null);
          } else if (wait !== NEVER && wait !== WHEN_RELEASED) {
            expect(toy.ask(charge, now + wait - 1).wait).toBe(1);
            expect(toy.ask(charge, now + wait).wait).toBe(0);
            exact += 1;
          }
        }
      }),
      { numRuns: 1_000 },
    );
    expect(exact).toBeGreaterThan(1_000);
  });

  it("asks again when the next of what is held runs out, if that can help", () => {
    const toy = new Toy(limitRule("k", { concurrency: 3 }, { weight: "n" }));
    toy.take(ONE, 0, null);
    toy.take(ONE, 0, 50);
    toy.take(ONE, 0, 20);
    expect(toy.ask({ weight: 1, slots: 2 }, 5)).toEqual({ wait: 15, reason: "concurrency" });
    expect(toy.ask({ weight: 1, slots: 2 }, 20)).toEqual({ wait: 30, reason: "concurrency" });
    expect(toy.ask({ weight: 1, slots: 2 }, 50).wait).toBe(0);
    expect(toy.ask({ weight: 1, slots: 3 }, 50)).toEqual({ wait: WHEN_RELEASED, reason: "concurrency" });
    expect(toy.ask({ weight: 1, slots: 4 }, 50).wait).toBe(NEVER);
  });

  it("is never over: not in any window, not at any instant, not nearer than the spacing", () => {
    fc.assert(
      fc.property(rules, acts, (rule, life) => {
        const toy = new Toy(rule);
        const { max, windowMs, concurrency, everyMs } = quotaOf(rule, null);
        let now = 0;
        for (const { act, after, weight, ttl } of life) {
          now += after;
          if (act === "release") toy.holds.shift();
          const charge = max === null ? { weight: 1, slots: weight } : { weight, slots: 1 };
          if (act !== "start" || toy.ask(charge, now).wait !== 0) continue;
          if (everyMs !== null && toy.starts.length > 0)
            expect(now - toy.starts.at(-1)!.at).toBeGreaterThanOrEqual(everyMs);
          toy.take(charge, now, ttl === null ? null : now + ttl);
          const inWindow = toy.starts.filter(({ at }) => now - at < (windowMs ?? 0));
          if (max !== null) expect(inWindow.reduce((sum, start) => sum + start.weight, 0)).toBeLessThanOrEqual(max);
          if (concurrency !== null) expect(toy.held(now).slots).toBeLessThanOrEqual(concurrency);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("tells of several that are in the way the one that is so the longest", () => {
    const toy = new Toy(limitRule("k", { max: 1, windowMs: 100, concurrency: 1, everyMs: 30 }));
    toy.take(ONE, 0, 60);
    expect(toy.ask(ONE, 10)).toEqual({ wait: 90, reason: "window" });
    holdKey(toy.gauge, 500);
    expect(toy.ask(ONE, 10)).toEqual({ wait: 490, reason: "held" });
    const stopped = new Toy({ ...toy.rule, paused: true });
    holdKey(stopped.gauge, 500);
    expect(stopped.ask(ONE, 10)).toEqual({ wait: WHEN_RELEASED, reason: "paused" });
    expect(stopped.ask({ weight: 2, slots: 1 }, 10).wait).toBe(NEVER);
  });

  it("lets nothing start under a limit of nothing, until that is changed", () => {
    expect(new Toy(limitRule("k", { max: 0, windowMs: 10 })).ask(ONE, 5)).toEqual({
      wait: WHEN_RELEASED,
      reason: "window",
    });
    const slots = new Toy(limitRule("k", { concurrency: 0 }));
    expect(slots.ask(ONE, 5)).toEqual({ wait: WHEN_RELEASED, reason: "concurrency" });
  });

  it("is as if a cancelled start had never been, but for what a service said", () => {
    const gauge = newKeyState();
    recordRemaining(gauge, 5, 100, 0);
    chargeKey(gauge, { weight: 3, slots: 1 }, 10);
    cancelCharge(gauge, 10);
    expect(gauge).toMatchObject({ latestAt: null, toldLeft: 2 });
    chargeKey(gauge, ONE, 20);
    chargeKey(gauge, ONE, 30);
    cancelCharge(gauge, 20);
    expect(gauge.latestAt).toBe(30);
  });

  it("takes what was used beyond the charge off what a service said, and gives nothing back for less", () => {
    const gauge = newKeyState();
    correctCharge(gauge, 3);
    expect(gauge.toldLeft).toBeNull();
    recordRemaining(gauge, 10, 100, 0);
    correctCharge(gauge, 4);
    correctCharge(gauge, -3);
    expect(gauge.toldLeft).toBe(6);
    correctCharge(gauge, 9);
    expect(gauge.toldLeft).toBe(0);
  });

  it("is held for all groups by its rule, and its windows are full while it cannot know", () => {
    const quota = { max: 5, windowMs: 10 };
    const ask = (about: Partial<LimitRule>, now: number) => new Toy(limitRule("k", quota, about)).ask(ONE, now);
    expect(ask({ heldUntil: 50 }, 20)).toEqual({ wait: 30, reason: "held" });
    expect(ask({ heldUntil: 50 }, 50)).toEqual({ wait: 0, reason: null });
    expect(ask({ blindUntil: 50 }, 20)).toEqual({ wait: 30, reason: "window" });
    const spaced = limitRule("k", { everyMs: 5 }, { blindUntil: 50 });
    expect(new Toy(spaced).ask(ONE, 20)).toEqual({ wait: 0, reason: null });
  });

  it("is held for as long as anybody said, whatever is said after that", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 100 }), { minLength: 1 }), (instants) => {
        const gauge = newKeyState();
        for (const until of instants) holdKey(gauge, until);
        expect(gauge.pausedUntil).toBe(Math.max(...instants));
      }),
    );
  });

  it("takes of what is said about one window the least, and about a later window that", () => {
    const gauge = newKeyState();
    recordRemaining(gauge, 5, 60_000, 0);
    recordRemaining(gauge, 8, 59_000, 500);
    expect(gauge).toMatchObject({ toldLeft: 5, toldUntil: 60_000 });
    recordRemaining(gauge, 3, 60_000, 1_000);
    expect(gauge).toMatchObject({ toldLeft: 3, toldUntil: 61_000 });
    recordRemaining(gauge, 90, 60_000, 30_000);
    expect(gauge).toMatchObject({ toldLeft: 90, toldUntil: 90_000 });
    recordRemaining(gauge, 7, 1_000, 90_000);
    expect(gauge).toMatchObject({ toldLeft: 7, toldUntil: 91_000 });
  });
});

describe("a breaker", () => {
  const verdict = (gauge: ReturnType<typeof newKeyState>, now: number, probes = 0) =>
    decideStart(
      limitRule("k", {}, { breaker: BREAKER }),
      null,
      gauge,
      { ...NO_SLOTS, probes, slots: probes },
      ONE,
      now,
      () => 0,
    );

  it("opens after so many failures in a row, lets probes through, and closes when one succeeds", () => {
    const gauge = newKeyState();
    expect(countFailure(gauge, BREAKER, [], 0, 10)).toBe(false);
    countSuccess(gauge, 0);
    expect(countFailure(gauge, BREAKER, [], 0, 20)).toBe(false);
    expect(countFailure(gauge, BREAKER, [], 0, 30)).toBe(true);
    expect(verdict(gauge, 30)).toEqual({ wait: 100, reason: "breaker" });
    expect(verdict(gauge, 129)).toEqual({ wait: 1, reason: "breaker" });
    expect(verdict(gauge, 130)).toEqual({ wait: 0, reason: null });
    expect(verdict(gauge, 130, 1)).toEqual({ wait: WHEN_RELEASED, reason: "breaker" });
    expect(countSuccess(gauge, 130)).toBe(true);
    expect(verdict(gauge, 131, 1)).toEqual({ wait: 0, reason: null });
  });

  it("opens again when a probe fails, and does not heed those who began before", () => {
    const gauge = newKeyState();
    countFailure(gauge, BREAKER, [], 0, 0);
    countFailure(gauge, BREAKER, [], 0, 0);
    expect(countFailure(gauge, BREAKER, [], 0, 50)).toBe(false);
    expect(countSuccess(gauge, 99)).toBe(false);
    expect(gauge.openUntil).toBe(100);
    expect(countFailure(gauge, BREAKER, [], 100, 140)).toBe(true);
    expect(gauge.openUntil).toBe(240);
  });

  it("counts only errors of its kinds", () => {
    const gauge = newKeyState();
    const picky = { ...BREAKER, failures: 1, kinds: ["E_TIMEOUT"] };
    expect(countFailure(gauge, picky, ["TypeError", "E_OTHER"], 0, 0)).toBe(false);
    expect(countFailure(gauge, picky, ["TypeError", "E_TIMEOUT"], 0, 0)).toBe(true);
  });
});

describe("an idle gauge", () => {
  it("is one in which nothing could matter any more, at the very instant", () => {
    const happenings: Readonly<Record<string, (gauge: ReturnType<typeof newKeyState>) => void>> = {
      "a start": (gauge) => chargeKey(gauge, ONE, 0),
      "a hold": (gauge) => holdKey(gauge, 50),
      "a word of the service": (gauge) => recordRemaining(gauge, 3, 50, 0),
    };
    for (const [what, happen] of Object.entries(happenings)) {
      const gauge = newKeyState();
      expect(isKeyIdle(gauge, 50, 0), what).toBe(true);
      happen(gauge);
      expect([isKeyIdle(gauge, 50, 49), isKeyIdle(gauge, 50, 50)], what).toEqual([false, true]);
    }
    const failing = newKeyState();
    countFailure(failing, BREAKER, [], 0, 0);
    expect(isKeyIdle(failing, null, 1e12)).toBe(false);
    countFailure(failing, BREAKER, [], 0, 0);
    expect(isKeyIdle(failing, null, 1e12)).toBe(false);
    countSuccess(failing, 1e12);
    expect(isKeyIdle(failing, null, 1e12)).toBe(true);
  });
});
