import { describe, expect, it } from "vitest";
import { shared, sharedAsCalled, slotsBack } from "../../chaos/checkers/shared.ts";
import { defineLimits, type LimitDefinitions } from "../../src/index.ts";
import type { AttemptRecord } from "../../src/core/job.ts";
import type { GroupState, LimitState } from "../../src/storage/limit-storage.ts";
import { finalOf, type Kept, Story } from "./support.ts";

function limitsOf(definitions: LimitDefinitions, states: readonly Partial<GroupState>[] = []): LimitState[] {
  return defineLimits(definitions).rules.map(
    (rule) => ({ rule, declared: rule, version: 1, waiting: 0, groups: 1, states }) as LimitState,
  );
}

/** A job that ran from then to then. */
const job = (id: string, startedAt: number, finishedAt: number, more: Partial<Kept> = {}): Kept => ({
  id,
  type: "t",
  data: "{}",
  group: null,
  weights: null,
  startedAt,
  finishedAt,
  ...more,
});

const stalled = (startedAt: number, endedAt: number): AttemptRecord => ({
  attempt: 1,
  startedAt,
  endedAt,
  worker: "w",
  error: { name: "StalledJobError", message: "", code: "SLUICE_STALLED" },
});

const violations = (...asked: Parameters<typeof check>) => check(...asked).flatMap((verdict) => verdict.violations);

function check(
  kept: readonly Kept[],
  definitions: LimitDefinitions,
  attempts: Record<string, AttemptRecord[]> = {},
  story = new Story(),
) {
  return shared(story.digest, finalOf(kept, { attempts, limits: limitsOf(definitions) }));
}

describe("windows of shared limits", () => {
  const two = { api: { max: 2, per: 100, all: true } } as const;

  it("are right while so many start in any of them, and wrong with one more", () => {
    expect(violations([job("1", 0, 1), job("2", 50, 51), job("3", 100, 101)], two)).toEqual([]);
    expect(violations([job("1", 0, 1), job("2", 50, 51), job("3", 99, 101)], two)).toEqual([
      "api: 1 more started at 99 beside 2, 2 allowed",
    ]);
  });

  it("count starts of processes that were killed", () => {
    const kept = [job("1", 60, 70), job("2", 50, 51)];
    expect(violations(kept, two)).toEqual([]);
    expect(violations(kept, two, { 1: [stalled(0, 55)] })).toHaveLength(1);
  });

  it("do not count starts that were taken back", () => {
    const kept = [job("1", 0, 1), job("2", 50, 51), job("3", 60, 60, { token: 3, state: "waiting", finishedAt: null })];
    const back = (stale: boolean) => new Story().settle(62, "a", "3", 3, { to: "back", unstarted: true, stale });
    expect(violations(kept, two, {}, back(true))).toHaveLength(1);
    expect(violations(kept, two, {}, back(false))).toEqual([]);
  });

  it("are counted for each group on its own, with what it has instead, and for jobs of their types alone", () => {
    const limits = { tenant: { max: 1, per: 100, by: "group", overrides: { big: { max: 2 } }, types: ["t"] } } as const;
    const right = [job("1", 0, 1, { group: "a" }), job("2", 0, 1, { group: "b" }), job("3", 0, 1, { type: "other" })];
    const big = ["4", "5"].map((id) => job(id, 0, 1, { group: "big" }));
    expect(violations([...right, ...big], limits)).toEqual([]);
    expect(violations([...right, job("6", 9, 10, { group: "a" })], limits)).toEqual([expect.stringContaining("[a]")]);
  });

  it("must fit what is reserved beside what was used", () => {
    const limits = { tokens: { max: 100, per: 100, weight: "tokens", all: true } } as const;
    const heavy = (id: string, at: number, reserved: number, tokens: number) =>
      job(id, at, at + 5, { weights: { tokens: reserved }, data: JSON.stringify({ tokens }) });
    expect(violations([heavy("1", 0, 80, 30), heavy("2", 10, 70, 70)], limits)).toEqual([]);
    expect(violations([heavy("1", 0, 80, 31), heavy("2", 10, 70, 70)], limits)).toHaveLength(1);
  });
});

describe("shared limits as called", () => {
  const violationsOf = (story: Story, kept: readonly Kept[], definitions: LimitDefinitions) =>
    sharedAsCalled(story.digest, finalOf(kept, { limits: limitsOf(definitions) })).violations;

  it("are judged by the stamps of handlers, whatever those of the storage say", () => {
    const two = { api: { max: 2, per: 100, all: true } } as const;
    // Granted a window apart, and called together.
    const kept = [job("1", 0, 1), job("2", 0, 1), job("3", 100, 101)];
    expect(violations(kept, two)).toEqual([]);
    const story = new Story().run(60, 61, "a", "1", 1).run(70, 71, "b", "2", 2);
    expect(violationsOf(story, kept, two)).toEqual([]);
    expect(violationsOf(story.run(101, 102, "b", "3", 3), kept, two)).toEqual([
      "api: 1 more called at 101 beside 2, 2 allowed in 100 ms",
    ]);
  });

  it("count permits and wrapped functions with jobs", () => {
    const two = { api: { max: 2, per: 100, types: ["t"] } } as const;
    const kept = [job("1", 0, 1)];
    const story = new Story().run(0, 1, "a", "1", 1).at(10, "b", { op: "call", phase: "info", under: ["api"] });
    story.at(11, "b", { op: "call", phase: "info", under: ["other"] });
    expect(violationsOf(story, kept, two)).toEqual([]);
    story.at(99.9, "b", { op: "call", phase: "info", under: ["api"] });
    expect(violationsOf(story, kept, two)).toHaveLength(1);
  });

  it("are counted for each group on its own", () => {
    const limits = { tenant: { max: 1, per: 100, by: "group", overrides: { big: { max: 2 } } } } as const;
    const kept = ["a", "b", "big", "big", "a"].map((group, i) => job(String(i), 0, 1, { group }));
    const story = new Story();
    for (const i of [0, 1, 2, 3]) story.run(i, i, "p", String(i), i);
    expect(violationsOf(story, kept, limits)).toEqual([]);
    expect(violationsOf(story.run(50, 51, "p", "4", 4), kept, limits)).toEqual([expect.stringContaining("[a]")]);
  });

  it("count a start for what is reserved, until its handler says what it used", () => {
    const limits = { tokens: { max: 100, per: 100, weight: "tokens", all: true } } as const;
    const kept = ["1", "2"].map((id) => job(id, 0, 1, { weights: { tokens: 60 } }));
    const said = (hr: number) =>
      new Story()
        .run(0, 50, "a", "1", 1)
        .at(hr, "a", { op: "use", phase: "info", job: "1", token: 1, tokens: 40 })
        .run(30, 40, "a", "2", 2);
    expect(violationsOf(said(20), kept, limits)).toEqual([]);
    expect(violationsOf(said(31), kept, limits)).toEqual([
      "tokens: 60 more called at 30 beside 60, 100 allowed in 100 ms",
    ]);
  });

  it("keep calls apart", () => {
    const limits = { paced: { every: 50, all: true } } as const;
    const kept = ["1", "2", "3"].map((id) => job(id, 0, 1));
    const story = new Story().run(0, 1, "a", "1", 1).run(50, 51, "b", "2", 2);
    expect(violationsOf(story, kept, limits)).toEqual([]);
    expect(violationsOf(story.run(99, 100, "a", "3", 3), kept, limits)).toEqual([
      "paced: two calls 49 ms apart, 50 needed",
    ]);
  });
});

describe("slots of shared limits", () => {
  const one = { gpu: { concurrency: 1, all: true } } as const;

  it("are right while no more run at a time, and wrong when leases overlap", () => {
    expect(violations([job("1", 0, 10), job("2", 10, 20)], one)).toEqual([]);
    expect(violations([job("1", 0, 10), job("2", 9, 20)], one)).toEqual(["gpu: 2 ran at 9, 1 allowed"]);
    expect(violations([job("1", 30, 40), job("2", 9, 20)], one, { 1: [stalled(0, 15)] })).toHaveLength(1);
  });

  it("are all back in the end", () => {
    const held = (n: number) => slotsBack(finalOf([], { limits: limitsOf(one, [{ group: null, held: n }]) }));
    expect(held(0)).toMatchObject({ n: 1, violations: [] });
    expect(held(1).violations).toEqual(["gpu: 1 slots in use without a job"]);
  });
});
