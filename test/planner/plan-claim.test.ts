import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { WHEN_RELEASED } from "../../src/limits/wait.ts";
import { limitRule } from "../storages/jobs.ts";
import { ToyLanes, ToyKey, planUnder } from "./support.ts";

const ids = (lanes: ToyLanes) => lanes.started.map(({ id }) => id).join(" ");

describe("a plan", () => {
  it("a plan starts jobs by priority, by turns, and in due order, whatever their type", () => {
    const lanes = new ToyLanes();
    lanes.add("a1", { group: "a", dueAt: 5 });
    lanes.add("a0", { group: "a", type: "u", dueAt: 3 });
    lanes.add("b1", { group: "b", dueAt: 1 });
    lanes.add("first", { priority: 1, dueAt: 9 });
    lanes.add("b2", { group: "b", dueAt: 2 });
    expect(planUnder(lanes, [], 10)).toEqual({
      started: 5,
      more: false,
      blockedBy: null,
      nextIn: WHEN_RELEASED,
      cutShort: false,
    });
    expect(ids(lanes)).toBe("first a0 b1 a1 b2");
  });

  it("a plan says whether more could start, and with nothing wanted starts nothing", () => {
    const lanes = new ToyLanes();
    for (const id of ["a", "b"]) lanes.add(id);
    const key = new ToyKey(limitRule("k", {}), null, 1);
    expect(planUnder(lanes, [key], 0)).toMatchObject({ started: 0, more: true, blockedBy: null });
    expect(key.left).toBe(1);
    expect(planUnder(lanes, [key], 1)).toMatchObject({ started: 1, more: false, blockedBy: "k", nextIn: 100 });
  });

  it("a full limit closes all types under it and no others", () => {
    const lanes = new ToyLanes();
    for (const type of ["a", "b", "c", "d"]) lanes.add(type, { type });
    const keys = [
      new ToyKey(limitRule("ab", {}, { types: ["a", "b"] }), null, 0, 70),
      new ToyKey(limitRule("c", {}, { types: ["c"] }), null, 0, 40),
    ];
    expect(planUnder(lanes, keys, 9)).toMatchObject({ started: 1, more: false, blockedBy: "c", nextIn: 40 });
    expect(ids(lanes)).toBe("d");
  });

  it("a full group blocks its lane, and the plan names the group", () => {
    const lanes = new ToyLanes();
    for (const id of ["g1", "g2", "h1", "h2"]) lanes.add(id, { group: id[0]! });
    const rule = limitRule("k", {}, { byGroup: true });
    const keys = [new ToyKey(rule, "g", 1), new ToyKey(rule, "h", 5)];
    expect(planUnder(lanes, keys, 9)).toMatchObject({ started: 3, more: false, blockedBy: "k[g]" });
    expect(ids(lanes)).toBe("g1 h1 h2");
    expect(lanes.lanes.map(({ blocked }) => blocked)).toEqual([true, false]);
  });

  it("a plan blocks the lane of a head that is too heavy for what is available, and no other", () => {
    const weighed = limitRule("k", { max: 10, windowMs: 1 }, { weight: "n" });
    const blocked = (key: ToyKey, n: number) => {
      const lanes = new ToyLanes();
      lanes.add("head", { n });
      lanes.add("other", { n: 1, type: "u", priority: -1 });
      expect(planUnder(lanes, [key], 9)).toMatchObject({ started: 0, more: false, blockedBy: "k" });
      return lanes.lanes.map((lane) => lane.blocked);
    };
    expect(blocked(new ToyKey(weighed, null, 5), 6)).toEqual([true, false]);
    expect(blocked(new ToyKey(weighed, null, 0), 6), "one would have to wait as long").toEqual([false, false]);
    expect(blocked(new ToyKey(weighed, null, 0, WHEN_RELEASED), 6), "one may start earlier").toEqual([true, false]);
    expect(blocked(new ToyKey(weighed, null, 0, WHEN_RELEASED), 1)).toEqual([false, false]);
    expect(blocked(new ToyKey(limitRule("k", {}), null, 0, WHEN_RELEASED), 6)).toEqual([false, false]);
  });

  it("closing types does not count toward the bound that cuts a plan short", () => {
    const lanes = new ToyLanes();
    const keys: ToyKey[] = [];
    for (let i = 0; i < 1_100; i++) {
      lanes.add(`j${i}`, { type: `t${i}` });
      keys.push(new ToyKey(limitRule(`k${i}`, {}, { types: [`t${i}`] }), null, 0));
    }
    lanes.add("last", { type: "free", priority: -1 });
    expect(planUnder(lanes, keys, 1)).toMatchObject({ started: 1, more: false, nextIn: 100, cutShort: false });
  });

  it("a job that can never fit ends, and the plan continues with the next", () => {
    const lanes = new ToyLanes();
    lanes.add("heavy", { n: 6 });
    lanes.add("light", { n: 5 });
    const rule = limitRule("k", { max: 5, windowMs: 1 }, { weight: "n" });
    expect(planUnder(lanes, [new ToyKey(rule, null, 5)], 9)).toMatchObject({ started: 1, blockedBy: null });
    expect([lanes.refused, ids(lanes)]).toEqual([["heavy"], "light"]);
  });

  it("a plan charges all limits of a job or none, and counts its own charges", () => {
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
          const lanes = new ToyLanes();
          for (const [i, one] of jobs.entries()) lanes.add(`${i}`, one);
          const keys = said.flatMap(({ types, byGroup, weight, left, full }, i) => {
            const rule = limitRule(`k${i}`, {}, { types, byGroup, weight });
            const groups = byGroup ? [null, "g", "h"] : [null];
            return groups.map((group, of) => new ToyKey(rule, group, left[of]!, full));
          });
          const before = new Map(keys.map((key) => [key, key.left]));
          const { started, more, blockedBy } = planUnder(lanes, keys, want);

          expect(started).toBe(lanes.started.length);
          expect(started).toBeLessThanOrEqual(want);
          const taken = new Map<ToyKey, number>();
          for (const { id, charges } of lanes.started) {
            const { type, group } = jobs[Number(id)]!;
            const under = keys.filter(
              ({ rule, group: of }) => (rule.types?.includes(type) ?? true) && of === (rule.byGroup ? group : null),
            );
            expect(new Set(charges.map(({ key }) => key))).toEqual(new Set(under));
            for (const { key, charge } of charges)
              taken.set(key as ToyKey, (taken.get(key as ToyKey) ?? 0) + charge.weight);
          }
          for (const [key, had] of before) {
            expect(key.left).toBe(had - (taken.get(key) ?? 0));
            expect(key.left).toBeGreaterThanOrEqual(0);
          }
          const left = lanes.lanes.some((lane) => lane.jobs.length > 0);
          if (left && !more) expect(blockedBy).not.toBeNull();
          if (more) expect(started).toBe(want);
          if (!left) expect([more, blockedBy === null || started < jobs.length]).toEqual([false, true]);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it("no light job passes a heavy head: it starts within a window, however many light jobs wait", () => {
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
            const lanes = new ToyLanes();
            for (const id of jobs) lanes.add(`${id}`, { n: sizes[id]!, type: id % 2 === 0 ? "even" : "odd" });
            const used = starts.filter(({ at }) => now - at < 10).reduce((sum, { n }) => sum + n, 0);
            planUnder(lanes, [new ToyKey(rule, null, max - used)], 3);
            for (const { id } of lanes.started) {
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

  it("blocked jobs and lanes do not raise the number of heads that a plan reads", () => {
    const looksWith = (jobs: number, blocked: number) => {
      const lanes = new ToyLanes();
      for (let i = 0; i < jobs; i++) lanes.add(`full${i}`, { type: "full", priority: 1 });
      for (let i = 0; i < blocked; i++) lanes.add(`blocked${i}`, { group: `g${i}` });
      for (const lane of lanes.lanes) if (lane.group !== null) lane.blocked = true;
      lanes.add("free", { group: "free" });
      const full = new ToyKey(limitRule("k", {}, { types: ["full"] }), null, 0);
      expect(planUnder(lanes, [full], 9)).toMatchObject({ started: 1, blockedBy: "k" });
      return lanes.looks;
    };
    expect(looksWith(2_000, 500)).toBe(looksWith(1, 1));
  });

  it("a plan is cut short after too many refusals, and says so", () => {
    const lanes = new ToyLanes();
    const rule = limitRule("k", {}, { byGroup: true });
    const keys: ToyKey[] = [];
    for (let i = 0; i < 1_100; i++) {
      lanes.add(`${i}`, { group: `g${i}` });
      keys.push(new ToyKey(rule, `g${i}`, 0));
    }
    expect(planUnder(lanes, keys, 9)).toMatchObject({ started: 0, more: true, cutShort: true });
    expect(planUnder(lanes, keys, 9)).toMatchObject({ started: 0, more: false, cutShort: false });
  });
});
