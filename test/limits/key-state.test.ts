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
  readonly state = newKeyState();
  readonly starts: { at: number; weight: number }[] = [];
  holds: { readonly at: number; readonly slots: number; readonly until: number | null }[] = [];

  constructor(rule: LimitRule) {
    this.rule = rule;
  }

  held(now: number): SlotsInUse {
    const held = this.holds.filter(({ until }) => until === null || until > now);
    const { openUntil } = this.state;
    return {
      slots: held.reduce((sum, { slots }) => sum + slots, 0),
      probes: openUntil === null || now < openUntil ? 0 : held.filter(({ at }) => at >= openUntil).length,
      expiresIn: Math.min(WHEN_RELEASED, ...held.map(({ until }) => (until ?? WHEN_RELEASED) - now)),
    };
  }

  ask(charge: Charge, now: number): KeyDecision {
    return decideStart(this.rule, null, this.state, this.held(now), charge, now, (max, windowMs, weight) => {
      const log = createLog();
      const view = viewOf(log, windowMs);
      for (const start of this.starts) recordAlone(log, start.at, start.weight);
      return windowWait(log, view, max, now, weight);
    });
  }

  take(charge: Charge, now: number, until: number | null): void {
    chargeKey(this.state, charge, now);
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

describe("the state of a key", () => {
  it("a key refuses until exactly the promised instant and then grants, whatever the reason", () => {
    let exact = 0;
    fc.assert(
      fc.property(rules, acts, (rule, life) => {
        const toy = new Toy(rule);
        let now = 1_000;
        for (const { act, after, weight } of life) {
          now += after;
          const charge = rule.quota.max === null ? { weight: 1, slots: weight } : { weight, slots: 1 };
          if (act === "release") toy.holds.shift();
          else if (act === "hold") holdKey(toy.state, now + weight * 7);
          else if (act === "tell") recordRemaining(toy.state, weight - 1, weight * 9, now);
          else if (act === "fail" && rule.breaker !== null) countFailure(toy.state, rule.breaker, [], now, now);
          else if (act === "succeed") countSuccess(toy.state, now);
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

  it("the wait for concurrency ends when the next slot in use expires, if that can help", () => {
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

  it("a key is never over in any window, at any instant, or closer than the spacing", () => {
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

  it("of several reasons for a refusal the one with the longest wait is given", () => {
    const toy = new Toy(limitRule("k", { max: 1, windowMs: 100, concurrency: 1, everyMs: 30 }));
    toy.take(ONE, 0, 60);
    expect(toy.ask(ONE, 10)).toEqual({ wait: 90, reason: "window" });
    holdKey(toy.state, 500);
    expect(toy.ask(ONE, 10)).toEqual({ wait: 490, reason: "held" });
    const stopped = new Toy({ ...toy.rule, paused: true });
    holdKey(stopped.state, 500);
    expect(stopped.ask(ONE, 10)).toEqual({ wait: WHEN_RELEASED, reason: "paused" });
    expect(stopped.ask({ weight: 2, slots: 1 }, 10).wait).toBe(NEVER);
  });

  it("a limit of 0 grants nothing until it is changed", () => {
    expect(new Toy(limitRule("k", { max: 0, windowMs: 10 })).ask(ONE, 5)).toEqual({
      wait: WHEN_RELEASED,
      reason: "window",
    });
    const slots = new Toy(limitRule("k", { concurrency: 0 }));
    expect(slots.ask(ONE, 5)).toEqual({ wait: WHEN_RELEASED, reason: "concurrency" });
  });

  it("a cancelled start leaves nothing behind but a lower remaining number of the service", () => {
    const state = newKeyState();
    recordRemaining(state, 5, 100, 0);
    chargeKey(state, { weight: 3, slots: 1 }, 10);
    cancelCharge(state, 10);
    expect(state).toMatchObject({ latestAt: null, remaining: 2 });
    chargeKey(state, ONE, 20);
    chargeKey(state, ONE, 30);
    cancelCharge(state, 20);
    expect(state.latestAt).toBe(30);
  });

  it("use beyond the charge lowers what the service said remains, and use below it does not raise it", () => {
    const state = newKeyState();
    correctCharge(state, 3);
    expect(state.remaining).toBeNull();
    recordRemaining(state, 10, 100, 0);
    correctCharge(state, 4);
    correctCharge(state, -3);
    expect(state.remaining).toBe(6);
    correctCharge(state, 9);
    expect(state.remaining).toBe(0);
  });

  it("a rule holds all of its groups, and its windows count as full while it lacks a record", () => {
    const quota = { max: 5, windowMs: 10 };
    const ask = (about: Partial<LimitRule>, now: number) => new Toy(limitRule("k", quota, about)).ask(ONE, now);
    expect(ask({ heldUntil: 50 }, 20)).toEqual({ wait: 30, reason: "held" });
    expect(ask({ heldUntil: 50 }, 50)).toEqual({ wait: 0, reason: null });
    expect(ask({ blindUntil: 50 }, 20)).toEqual({ wait: 30, reason: "window" });
    const spaced = limitRule("k", { everyMs: 5 }, { blindUntil: 50 });
    expect(new Toy(spaced).ask(ONE, 20)).toEqual({ wait: 0, reason: null });
  });

  it("a hold lasts until the latest instant that was set", () => {
    fc.assert(
      fc.property(fc.array(fc.nat({ max: 100 }), { minLength: 1 }), (instants) => {
        const state = newKeyState();
        for (const until of instants) holdKey(state, until);
        expect(state.heldUntil).toBe(Math.max(...instants));
      }),
    );
  });

  it("the lowest remaining number holds within one window, and a later window replaces it", () => {
    const state = newKeyState();
    recordRemaining(state, 5, 60_000, 0);
    recordRemaining(state, 8, 59_000, 500);
    expect(state).toMatchObject({ remaining: 5, remainingUntil: 60_000 });
    recordRemaining(state, 3, 60_000, 1_000);
    expect(state).toMatchObject({ remaining: 3, remainingUntil: 61_000 });
    recordRemaining(state, 90, 60_000, 30_000);
    expect(state).toMatchObject({ remaining: 90, remainingUntil: 90_000 });
    recordRemaining(state, 7, 1_000, 90_000);
    expect(state).toMatchObject({ remaining: 7, remainingUntil: 91_000 });
  });
});

describe("a breaker", () => {
  const decision = (state: ReturnType<typeof newKeyState>, now: number, probes = 0) =>
    decideStart(
      limitRule("k", {}, { breaker: BREAKER }),
      null,
      state,
      { ...NO_SLOTS, probes, slots: probes },
      ONE,
      now,
      () => 0,
    );

  it("a breaker opens after so many failures in a row, grants probes, and closes when one succeeds", () => {
    const state = newKeyState();
    expect(countFailure(state, BREAKER, [], 0, 10)).toBe(false);
    countSuccess(state, 0);
    expect(countFailure(state, BREAKER, [], 0, 20)).toBe(false);
    expect(countFailure(state, BREAKER, [], 0, 30)).toBe(true);
    expect(decision(state, 30)).toEqual({ wait: 100, reason: "breaker" });
    expect(decision(state, 129)).toEqual({ wait: 1, reason: "breaker" });
    expect(decision(state, 130)).toEqual({ wait: 0, reason: null });
    expect(decision(state, 130, 1)).toEqual({ wait: WHEN_RELEASED, reason: "breaker" });
    expect(countSuccess(state, 130)).toBe(true);
    expect(decision(state, 131, 1)).toEqual({ wait: 0, reason: null });
  });

  it("a breaker opens again when a probe fails, and ignores starts from before it opened", () => {
    const state = newKeyState();
    countFailure(state, BREAKER, [], 0, 0);
    countFailure(state, BREAKER, [], 0, 0);
    expect(countFailure(state, BREAKER, [], 0, 50)).toBe(false);
    expect(countSuccess(state, 99)).toBe(false);
    expect(state.openUntil).toBe(100);
    expect(countFailure(state, BREAKER, [], 100, 140)).toBe(true);
    expect(state.openUntil).toBe(240);
  });

  it("a breaker counts only errors of its kinds", () => {
    const state = newKeyState();
    const picky = { ...BREAKER, failures: 1, kinds: ["E_TIMEOUT"] };
    expect(countFailure(state, picky, ["TypeError", "E_OTHER"], 0, 0)).toBe(false);
    expect(countFailure(state, picky, ["TypeError", "E_TIMEOUT"], 0, 0)).toBe(true);
  });
});

describe("an idle key", () => {
  it("a key is idle from the very instant at which its state affects no decision", () => {
    const happenings: Readonly<Record<string, (state: ReturnType<typeof newKeyState>) => void>> = {
      "a start": (state) => chargeKey(state, ONE, 0),
      "a hold": (state) => holdKey(state, 50),
      "a remaining number of the service": (state) => recordRemaining(state, 3, 50, 0),
    };
    for (const [what, happen] of Object.entries(happenings)) {
      const state = newKeyState();
      expect(isKeyIdle(state, 50, 0), what).toBe(true);
      happen(state);
      expect([isKeyIdle(state, 50, 49), isKeyIdle(state, 50, 50)], what).toEqual([false, true]);
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
