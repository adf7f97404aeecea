import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WHEN_RELEASED } from "../../src/limits/wait.ts";
import { limitRule } from "../storages/jobs.ts";
import { ToyGround, ToyMeter, walkUnder } from "./walk-support.ts";

const ids = (ground: ToyGround) => ground.started.map(({ id }) => id).join(" ");

describe("a walk", () => {
  it("goes by priority, by turns, and as jobs came due, whatever their type", () => {
    const ground = new ToyGround();
    ground.add("a1", { group: "a", dueAt: 5 });
    ground.add("a0", { group: "a", type: "u", dueAt: 3 });
    ground.add("b1", { group: "b", dueAt: 1 });
    ground.add("first", { priority: 1, dueAt: 9 });
    ground.add("b2", { group: "b", dueAt: 2 });
    expect(walkUnder(ground, [], 10)).toEqual({
      started: 5,
      more: false,
      blockedBy: null,
      nextIn: WHEN_RELEASED,
      cutShort: false,
    });
    expect(ids(ground)).toBe("first a0 b1 a1 b2");
  });

  it("says whether there is more, and with nothing wanted starts nothing", () => {
    const ground = new ToyGround();
    for (const id of ["a", "b"]) ground.add(id);
    const meter = new ToyMeter(limitRule("k", {}), null, 1);
    expect(walkUnder(ground, [meter], 0)).toMatchObject({ started: 0, more: true, blockedBy: null });
    expect(meter.left).toBe(1);
    expect(walkUnder(ground, [meter], 1)).toMatchObject({ started: 1, more: false, blockedBy: "k", nextIn: 100 });
  });

  it("passes over a type whose limit is full, and all types under that limit, and no other", () => {
    const ground = new ToyGround();
    for (const type of ["a", "b", "c", "d"]) ground.add(type, { type });
    const meters = [
      new ToyMeter(limitRule("ab", {}, { types: ["a", "b"] }), null, 0, 70),
      new ToyMeter(limitRule("c", {}, { types: ["c"] }), null, 0, 40),
    ];
    expect(walkUnder(ground, meters, 9)).toMatchObject({ started: 1, more: false, blockedBy: "c", nextIn: 40 });
    expect(ids(ground)).toBe("d");
  });

  it("passes over a lane whose group is full, and tells which group", () => {
    const ground = new ToyGround();
    for (const id of ["g1", "g2", "h1", "h2"]) ground.add(id, { group: id[0]! });
    const rule = limitRule("k", {}, { byGroup: true });
    const meters = [new ToyMeter(rule, "g", 1), new ToyMeter(rule, "h", 5)];
    expect(walkUnder(ground, meters, 9)).toMatchObject({ started: 3, more: false, blockedBy: "k[g]" });
    expect(ids(ground)).toBe("g1 h1 h2");
    expect(ground.lanes.map(({ blocked }) => blocked)).toEqual([true, false]);
  });

  it("remembers a head that is too heavy for what is left, and no other", () => {
    const weighed = limitRule("k", { max: 10, windowMs: 1 }, { weight: "n" });
    const blocked = (meter: ToyMeter, n: number) => {
      const ground = new ToyGround();
      ground.add("head", { n });
      ground.add("other", { n: 1, type: "u", priority: -1 });
      expect(walkUnder(ground, [meter], 9)).toMatchObject({ started: 0, more: false, blockedBy: "k" });
      return ground.lanes.map((lane) => lane.blocked);
    };
    expect(blocked(new ToyMeter(weighed, null, 5), 6)).toEqual([true, false]);
    expect(blocked(new ToyMeter(weighed, null, 0), 6), "one would have to wait as long").toEqual([false, false]);
    expect(blocked(new ToyMeter(weighed, null, 0, WHEN_RELEASED), 6), "one may start earlier").toEqual([true, false]);
    expect(blocked(new ToyMeter(weighed, null, 0, WHEN_RELEASED), 1)).toEqual([false, false]);
    expect(blocked(new ToyMeter(limitRule("k", {}), null, 0, WHEN_RELEASED), 6)).toEqual([false, false]);
  });

  it("closes as many types as there are without giving up", () => {
    const ground = new ToyGround();
    const meters: ToyMeter[] = [];
    for (let i = 0; i < 1_100; i++) {
      ground.add(`j${i}`, { type: `t${i}` });
      meters.push(new ToyMeter(limitRule(`k${i}`, {}, { types: [`t${i}`] }), null, 0));
    }
    ground.add("last", { type: "free", priority: -1 });
    expect(walkUnder(ground, meters, 1)).toMatchObject({ started: 1, more: false, nextIn: 100, cutShort: false });
  });

  it("ends what can never fit, and goes on with who comes next", () => {
    const ground = new ToyGround();
    ground.add("heavy", { n: 6 });
    ground.add("light", { n: 5 });
    const rule = limitRule("k", { max: 5, windowMs: 1 }, { weight: "n" });
    expect(walkUnder(ground, [new ToyMeter(rule, null, 5)], 9)).toMatchObject({ started: 1, blockedBy: null });
    expect([ground.refused, ids(ground)]).toEqual([["heavy"], "light"]);
  });

  it("takes all limits of a job or none, and goes by what it has taken itself", () => {
    const job = fc.record({
      type: fc.constantFrom("a", "b", "c"),
      group: fc.constantFrom(null, "g", "h"),
      priority: fc.constantFrom(0, 1),
      n: fc.integer({ min: 1, max: 5 }),
    });
    const limit = fc.record({
      types: fc.option(fc.subarray(["a", "b", "c"], { minLength: 1 })),
      byGroup: fc.boolean(),
      weight: fc.constantFrom("n", null),
      left: fc.array(fc.nat({ max: 9 }), { minLength: 3, maxLength: 3 }),
      full: fc.constantFrom(10, 20, WHEN_RELEASED),
    });
    fc.assert(
      fc.property(
        fc.array(job, { maxLength: 20 }),
        fc.array(limit, { maxLength: 4 }),
        fc.nat({ max: 12 }),
        (jobs, said, want) => {
          const ground = new ToyGround();
          for (const [i, one] of jobs.entries()) ground.add(`${i}`, one);
          const meters = said.flatMap(({ types, byGroup, weight, left, full }, i) => {
            const rule = limitRule(`k${i}`, {}, { types, byGroup, weight });
            const groups = byGroup ? [null, "g", "h"] : [null];
            return groups.map((group, of) => new ToyMeter(rule, group, left[of]!, full));
          });
          const before = new Map(meters.map((meter) => [meter, meter.left]));
          const { started, more, blockedBy } = walkUnder(ground, meters, want);

          expect(started).toBe(ground.started.length);
          expect(started).toBeLessThanOrEqual(want);
          const taken = new Map<ToyMeter, number>();
          for (const { id, uses } of ground.started) {
            const { type, group } = jobs[Number(id)]!;
            const under = meters.filter(
              ({ rule, group: of }) => (rule.types?.includes(type) ?? true) && of === (rule.byGroup ? group : null),
            );
            expect(new Set(uses.map(({ meter }) => meter))).toEqual(new Set(under));
            for (const { meter, charge } of uses)
              taken.set(meter as ToyMeter, (taken.get(meter as ToyMeter) ?? 0) + charge.weight);
          }
          for (const [meter, had] of before) {
            expect(meter.left).toBe(had - (taken.get(meter) ?? 0));
            expect(meter.left).toBeGreaterThanOrEqual(0);
          }
          const left = ground.lanes.some((lane) => lane.jobs.length > 0);
          if (left && !more) expect(blockedBy).not.toBeNull();
          if (more) expect(started).toBe(want);
          if (!left) expect([more, blockedBy === null || started < jobs.length]).toEqual([false, true]);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it("never lets anybody pass a heavy head: it starts within a window, however many light ones there are", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 2, max: 10 }),
        fc.array(fc.integer({ min: 1, max: 10 }), { minLength: 5, maxLength: 40 }),
        (max, weights) => {
          const rule = limitRule("k", { max, windowMs: 10 }, { weight: "n" });
          const starts: { at: number; id: number; n: number }[] = [];
          const sizes = weights.map((n) => Math.min(n, max));
          const jobs = [...sizes.keys()];
          for (let now = 0; jobs.length > 0 && now < 1_000; now++) {
            const ground = new ToyGround();
            for (const id of jobs) ground.add(`${id}`, { n: sizes[id]!, type: id % 2 === 0 ? "even" : "odd" });
            const used = starts.filter(({ at }) => now - at < 10).reduce((sum, { n }) => sum + n, 0);
            walkUnder(ground, [new ToyMeter(rule, null, max - used)], 3);
            for (const { id } of ground.started) {
              jobs.splice(jobs.indexOf(Number(id)), 1);
              starts.push({ at: now, id: Number(id), n: sizes[Number(id)]! });
            }
          }
          expect(starts.map(({ id }) => id)).toEqual([...sizes.keys()]);
          for (let i = 1; i < starts.length; i++) expect(starts[i]!.at - starts[i - 1]!.at).toBeLessThanOrEqual(10);
        },
      ),
      { numRuns: 100 },
    );
  });

  it("does not look at more because more is in the way: jobs, or lanes that were blocked before", () => {
    const looksWith = (jobs: number, blocked: number) => {
      const ground = new ToyGround();
      for (let i = 0; i < jobs; i++) ground.add(`full${i}`, { type: "full", priority: 1 });
      for (let i = 0; i < blocked; i++) ground.add(`blocked${i}`, { group: `g${i}` });
      for (const lane of ground.lanes) if (lane.group !== null) lane.blocked = true;
      ground.add("free", { group: "free" });
      const full = new ToyMeter(limitRule("k", {}, { types: ["full"] }), null, 0);
      expect(walkUnder(ground, [full], 9)).toMatchObject({ started: 1, blockedBy: "k" });
      return ground.looks;
    };
    expect(looksWith(2_000, 500)).toBe(looksWith(1, 1));
  });

  it("gives up when too much is in the way for one claim, and says so", () => {
    const ground = new ToyGround();
    const rule = limitRule("k", {}, { byGroup: true });
    const meters: ToyMeter[] = [];
    for (let i = 0; i < 1_100; i++) {
      ground.add(`${i}`, { group: `g${i}` });
      meters.push(new ToyMeter(rule, `g${i}`, 0));
    }
    expect(walkUnder(ground, meters, 9)).toMatchObject({ started: 0, more: true, cutShort: true });
    expect(walkUnder(ground, meters, 9)).toMatchObject({ started: 0, more: false, cutShort: false });
  });
});
