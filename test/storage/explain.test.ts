import { describe, expect, it } from "vitest";
import {
  type Backlog,
  defineLimits,
  type LimitDefinition,
  type LimitCondition,
  type StartConditions,
} from "../../src/index.ts";
import type { JobRecord, LimitState, TypeBacklog } from "../../src/index.ts";
import { drain } from "../../src/storage/drain.ts";
import { explainJob } from "../../src/storage/explain.ts";
import { roughText, spanText } from "../../src/storage/span.ts";
import { chance } from "../worker/failing-network.ts";

const NOW = Date.UTC(2030, 0, 1);
const at = (ms: number) => new Date(NOW + ms);

const JOB: JobRecord = {
  id: "1",
  queue: "mail",
  type: "send",
  data: "null",
  state: "waiting",
  priority: 0,
  group: null,
  weights: null,
  attempt: 0,
  maxAttempts: 5,
  backoff: { kind: "fixed", delay: 0 },
  timeout: null,
  deadline: null,
  keepFor: null,
  holds: 0,
  createdAt: NOW,
  dueAt: NOW,
  startedAt: null,
  finishedAt: null,
  worker: null,
  leaseUntil: null,
  token: 0,
  cancelRequested: false,
  progress: null,
  result: null,
  error: null,
  idempotencyKey: null,
};

const conditions = (job: Partial<JobRecord>, rest: Partial<StartConditions> = {}): StartConditions => ({
  job: { ...JOB, ...job },
  now: NOW,
  queuePaused: false,
  typePaused: false,
  workers: { live: 1, handling: 1 },
  ahead: { higher: 0, group: 0, lane: 0, turns: 0 },
  limits: [],
  ...rest,
});

const ruleOf = (definition: LimitDefinition, name = "quota") => defineLimits({ [name]: definition }).rules[0]!;

const under = (definition: LimitDefinition, rest: Partial<LimitCondition>): LimitCondition => ({
  rule: ruleOf(definition),
  group: null,
  weight: 1,
  used: 0,
  held: 0,
  waitMs: 0,
  reason: null,
  most: null,
  ...rest,
});

describe("explaining a job", () => {
  it("explainJob() says that a job could start", () => {
    expect(explainJob(conditions({}, { limits: [under({ max: 1, per: 1, all: true }, {})] }))).toEqual({
      id: "1",
      queue: "mail",
      type: "send",
      state: "waiting",
      runnable: true,
      blockers: [],
      earliest: at(0),
      position: { higher: 0, group: 0, turns: 0 },
    });
  });

  it("explainJob() says that a scheduled job that has come due could start", () => {
    expect(explainJob(conditions({ state: "scheduled" })).runnable).toBe(true);
  });

  it.each([
    ["active", { state: "active", startedAt: NOW }, "running", "It is running since 2030-01-01T00:00:00.000Z."],
    ["completed", { state: "completed" }, "ended", "It has ended: completed."],
    ["dead", { state: "dead" }, "ended", "It has ended: dead."],
    ["cancelled", { state: "cancelled" }, "ended", "It has ended: cancelled."],
    ["awaiting", { state: "awaiting" }, "dependency", "It waits for other jobs of its flow."],
  ] as const)("says that a job is %s, and nothing else", (_, job, kind, text) => {
    const limits = [under({ max: 1, per: 1, all: true }, { waitMs: 5, reason: "window" })];
    const explained = explainJob(
      conditions(job, { queuePaused: true, limits, ahead: { higher: 1, group: 1, lane: 1, turns: 0 } }),
    );
    expect(explained).toMatchObject({ runnable: false, earliest: undefined });
    expect(explained.blockers).toEqual([{ kind, until: undefined, text }]);
  });

  it("explainJob() names all blockers, the longest first, and the jobs before it last", () => {
    const explained = explainJob(
      conditions(
        { state: "scheduled", dueAt: NOW + 300 },
        {
          typePaused: true,
          queuePaused: true,
          ahead: { higher: 2, group: 10_000, lane: 10_000, turns: 1 },
          limits: [
            under({ max: 5, per: "1s", all: true }, { used: 5, waitMs: 700, reason: "window" }),
            under({ max: 5, per: "1s", all: true }, { used: 4 }),
          ],
        },
      ),
    );
    expect(explained.blockers.map(({ kind, until }) => [kind, until?.getTime()])).toEqual([
      ["queue-paused", undefined],
      ["type-paused", undefined],
      ["limit", NOW + 700],
      ["delay", NOW + 300],
      ["order", undefined],
    ]);
    expect(explained.earliest).toBeUndefined();
    expect(explained.blockers.map(({ text }) => text)).toEqual([
      'The queue "mail" is paused.',
      'Jobs of type "send" are paused.',
      "The limit quota is full until 2030-01-01T00:00:00.700Z: 5 of 5 per 1s in use.",
      "It is due at 2030-01-01T00:00:00.300Z.",
      "Before it 2 of a higher priority, 10000 or more of its own priority and group and 1 of other groups by turns wait, and may start first.",
    ]);
  });

  it("the earliest start of a job is the end of its longest blocker", () => {
    const limits = [
      under({ max: 5, per: "1s", all: true }, { used: 5, waitMs: 100.2, reason: "window" }),
      under({ every: "1s", all: true }, { waitMs: 50, reason: "spacing" }),
    ];
    expect(explainJob(conditions({}, { limits })).earliest).toEqual(at(101));
    expect(explainJob(conditions({ dueAt: NOW + 400 }, { limits })).earliest).toEqual(at(400));
  });

  const ahead = (higher: number, group: number, turns: number) => ({ higher, group, lane: 0, turns });
  const behind = (before: StartConditions["ahead"], definition: LimitDefinition, rest: Partial<LimitCondition> = {}) =>
    explainJob(conditions({}, { ahead: before, limits: [under(definition, rest)] }));

  it("a job is runnable behind others if nothing limits them", () => {
    const explained = explainJob(conditions({}, { ahead: ahead(1, 10_000, 3) }));
    expect(explained).toMatchObject({ runnable: true, earliest: at(0), blockers: [] });
    expect(explained.position).toEqual({ higher: 1, group: 10_000, turns: 3 });
  });

  it.each<[LimitDefinition, Partial<LimitCondition>]>([
    [{ max: 10, per: "1s", all: true }, { used: 3 }],
    [{ concurrency: 10, all: true }, { held: 3 }],
    [
      { max: 10, per: "1s", concurrency: 99, all: true },
      { used: 3, held: 3 },
    ],
    [
      { max: 99, per: "1s", concurrency: 10, all: true },
      { used: 3, held: 3 },
    ],
  ])("a job is runnable if the limit has enough available for it and all jobs before it: %j", (definition, rest) => {
    expect(behind(ahead(1, 2, 3), definition, rest)).toMatchObject({ runnable: true, blockers: [] });
    expect(behind(ahead(1, 2, 4), definition, rest)).toMatchObject({
      runnable: false,
      earliest: at(0),
      blockers: [
        {
          kind: "order",
          text: "Before it 1 of a higher priority, 2 of its own priority and group and 4 of other groups by turns wait, and may start first.",
        },
      ],
    });
  });

  it("jobs of other groups do not count under a limit by group", () => {
    const limit: LimitDefinition = { max: 3, per: "1s", by: "group" };
    expect(behind(ahead(0, 2, 500), limit, { group: "acme" }).runnable).toBe(true);
    expect(behind(ahead(1, 2, 0), limit, { group: "acme" }).runnable).toBe(false);
  });

  it.each<LimitDefinition>([
    { every: "1s", all: true },
    { max: 100, per: "1s", weight: "tokens", all: true },
    { concurrency: 100, weight: "gb", all: true },
    { concurrency: 100, breaker: { failures: 1, open: "1s" }, all: true },
  ])("a job behind another is not runnable under %j", (definition) => {
    expect(behind(ahead(0, 1, 0), definition)).toMatchObject({
      runnable: false,
      blockers: [{ text: "Before it 1 of its own priority and group waits, and may start first." }],
    });
    expect(behind(ahead(0, 0, 0), definition)).toMatchObject({ runnable: true, blockers: [] });
  });

  it("a job is not runnable if more jobs come before it than were counted", () => {
    const limit: LimitDefinition = { max: 1_000_000, per: "1s", all: true };
    expect(behind(ahead(0, 9_999, 9_999), limit).runnable).toBe(true);
    expect(behind(ahead(0, 0, 10_000), limit).runnable).toBe(false);
  });

  it("explainJob() returns only instants that a Date can hold", () => {
    const last = new Date(8.64e15);
    const limits = [under({ every: 1e15, all: true }, { waitMs: 12e15, reason: "spacing" })];
    expect(explainJob(conditions({ dueAt: 9e15 }, { limits }))).toMatchObject({
      earliest: last,
      blockers: [{ until: last }, { until: last }],
    });
  });

  it.each<[LimitDefinition, Partial<LimitCondition>, string]>([
    [
      { max: 100, per: "1m", weight: "tokens", all: true },
      { used: 90, weight: 20, waitMs: 1_000, reason: "window" },
      "The limit quota is full until 2030-01-01T00:00:01.000Z: 90 of 100 per 1m in use, and the job needs 20.",
    ],
    [
      { max: 0, per: 1, all: true },
      { waitMs: null, reason: "window" },
      "The limit quota lets nothing start until that is changed.",
    ],
    [
      { every: "500ms", all: true },
      { waitMs: 20, reason: "spacing" },
      "The limit quota lets one start every 500ms: not until 2030-01-01T00:00:00.020Z.",
    ],
    [
      { concurrency: 2, all: true },
      { held: 2, waitMs: null, reason: "concurrency" },
      "The limit quota is full until one ends: 2 of 2 at a time are running.",
    ],
    [
      { concurrency: 0, all: true },
      { waitMs: null, reason: "concurrency" },
      "The limit quota lets nothing start until that is changed.",
    ],
    [
      { concurrency: 2, all: true },
      { waitMs: null, reason: "paused" },
      "The limit quota is paused until it is resumed.",
    ],
    [
      { concurrency: 2, all: true },
      { waitMs: 5, reason: "held" },
      "The limit quota is held until 2030-01-01T00:00:00.005Z: the service or an operator asked for that.",
    ],
    [
      { concurrency: 2, all: true },
      { waitMs: 5, reason: "remaining" },
      "The limit quota waits until 2030-01-01T00:00:00.005Z: the service said that not enough remains.",
    ],
    [
      { concurrency: 2, all: true },
      { waitMs: 5, reason: "breaker" },
      "The limit quota had too many failures in a row, and lets nothing start until 2030-01-01T00:00:00.005Z.",
    ],
    [
      { concurrency: 2, all: true },
      { waitMs: null, reason: "breaker" },
      "The limit quota had too many failures in a row, and waits for the end of a probe.",
    ],
    [{ concurrency: 2, all: true }, { waitMs: 5 }, "The limit quota is full until 2030-01-01T00:00:00.005Z."],
    [
      { max: 5, per: "1s", by: "group" },
      { group: "acme", used: 5, waitMs: 5, reason: "window" },
      "The limit quota[acme] is full until 2030-01-01T00:00:00.005Z: 5 of 5 per 1s in use.",
    ],
  ])("explainJob() describes %j as a sentence", (definition, rest, text) => {
    const [blocker] = explainJob(conditions({}, { limits: [under(definition, rest)] })).blockers;
    expect(blocker?.text).toBe(text);
  });

  it("explainJob() returns the numbers of a limit, for its group", () => {
    const limit = under(
      { max: 5, per: "1s", concurrency: 9, by: "group", overrides: { acme: { max: 50 } } },
      { group: "acme", used: 50, held: 3, waitMs: 5, reason: "window" },
    );
    expect(explainJob(conditions({ group: "acme" }, { limits: [limit] })).blockers[0]).toMatchObject({
      kind: "limit",
      limit: "quota",
      group: "acme",
      reason: "window",
      used: 50,
      max: 50,
      held: 3,
      concurrency: 9,
      weight: 1,
      until: at(5),
    });
  });

  it("explainJob() says that jobs before it will use what is available", () => {
    const limits = [
      under({ max: 5, per: "1s", all: true }, { used: 3, waitMs: 700, reason: "window" }),
      under({ concurrency: 2, all: true }, { held: 1, waitMs: null, reason: "concurrency" }),
      under({ concurrency: 8, weight: "gb", all: true }, { held: 5, weight: 4, waitMs: null, reason: "concurrency" }),
    ];
    const texts = explainJob(
      conditions({}, { ahead: { higher: 0, group: 4, lane: 4, turns: 0 }, limits }),
    ).blockers.map(({ text }) => text);
    expect(texts).toEqual([
      "The limit quota goes to the jobs before it until one ends: 1 of 2 at a time are running.",
      "The limit quota is full until one ends: 5 of 8 at a time are running, and the job needs 4.",
      "The limit quota goes to the jobs before it until 2030-01-01T00:00:00.700Z: 3 of 5 per 1s in use.",
      "Before it 4 of its own priority and group wait, and may start first.",
    ]);
  });

  it("explainJob() does not say when slots will be released", () => {
    const limits = [under({ concurrency: 1, all: true }, { held: 1, waitMs: 30_000, reason: "concurrency" })];
    const explained = explainJob(conditions({}, { limits }));
    expect(explained).toMatchObject({ runnable: false, earliest: undefined, blockers: [{ until: undefined }] });
  });

  it("explainJob() says that a job never fits", () => {
    const limit = under(
      { max: 5, per: "1s", weight: "t", all: true },
      { weight: 9, waitMs: null, reason: "window", most: 5 },
    );
    const explained = explainJob(conditions({}, { limits: [limit] }));
    expect(explained).toMatchObject({ runnable: false, earliest: undefined });
    expect(explained.blockers[0]).toMatchObject({ reason: undefined, until: undefined });
    expect(explained.blockers[0]?.text).toBe(
      "The limit quota lets 5 start at the most, and the job weighs 9: it never fits.",
    );
  });
});

const typeOf = (type: string, waiting: number, rest: Partial<TypeBacklog> = {}): TypeBacklog => ({
  type,
  paused: false,
  workers: 1,
  waiting,
  scheduled: 0,
  active: 0,
  groups: 1,
  mostInGroup: waiting,
  weights: {},
  ranMs: null,
  ...rest,
});

const limitOf = (
  definition: LimitDefinition,
  rest: Partial<LimitState> & { state?: Partial<LimitState["states"][number]>; name?: string } = {},
): LimitState => {
  const rule = ruleOf(definition, rest.name);
  const state = { group: null, used: 0, held: 0, free: null, nextInMs: 0, reason: null, heldForMs: 0 } as const;
  return {
    rule,
    declared: rule,
    revision: 1,
    version: null,
    owners: [],
    waiting: 0,
    groups: 1,
    states: [{ ...state, breaker: "closed", ...rest.state }],
    ...(rest.waiting === undefined ? {} : { waiting: rest.waiting }),
    ...(rest.rule === undefined ? {} : { rule: rest.rule }),
  };
};

const backlog = (types: readonly TypeBacklog[], limits: readonly LimitState[], paused = false): Backlog => ({
  queue: "mail",
  paused,
  types,
  limits,
});

describe("how long a backlog takes", () => {
  it("a queue without waiting jobs or limits takes no time", () => {
    expect(drain(backlog([], []))).toMatchObject({
      waiting: 0,
      drainsInMs: 0,
      bottleneck: undefined,
      text: "Nothing waits.",
    });
    const free = drain(backlog([typeOf("a", 7)], []));
    expect(free).toMatchObject({ waiting: 7, drainsInMs: 0, limits: [], unknown: [] });
    expect(free.text).toBe("7 jobs wait, and no limit blocks: the workers decide how long it takes.");
  });

  it("a window takes the time of its rate, after what is available now", () => {
    const limits = [limitOf({ max: 10, per: "1s", all: true }, { state: { used: 4, nextInMs: 0 } })];
    expect(drain(backlog([typeOf("a", 6)], limits)).drainsInMs).toBe(0);
    expect(drain(backlog([typeOf("a", 106)], limits))).toMatchObject({
      drainsInMs: 10_000,
      atLeastMs: 10_000,
      bottleneck: "quota",
      limits: [{ limit: "quota", binds: "window", waiting: 106, drainsInMs: 10_000, stopped: false }],
      text: "106 jobs wait. With enough workers the last starts in about 10s; quota is the bottleneck.",
    });
  });

  it("the estimate uses the weights of jobs, or the estimated weight", () => {
    const limit = limitOf({ max: 100, per: "1m", weight: "tokens", estimate: 10, all: true }, { state: { used: 100 } });
    const types = [typeOf("said", 10, { weights: { tokens: { part: 1, mean: 25 } } }), typeOf("unsaid", 5)];
    expect(drain(backlog(types, [limit])).drainsInMs).toBe(180_000);
  });

  it("the estimate combines weights and estimated weight if only some jobs of a type have weights", () => {
    const limit = limitOf(
      { max: 1_000, per: "1m", weight: "tokens", estimate: 10, all: true },
      { state: { used: 1_000 } },
    );
    const mixed = typeOf("a", 100, { weights: { tokens: { part: 0.25, mean: 130 } } });
    expect(drain(backlog([mixed], [limit])).drainsInMs).toBe(((25 * 130 + 75 * 10) / 1_000) * 60_000);
    const others = typeOf("a", 100, { weights: { images: { part: 1, mean: 500 } } });
    expect(drain(backlog([others], [limit])).drainsInMs).toBe(60_000);
  });

  it("the estimate counts only types that the limit applies to", () => {
    const limit = limitOf({ max: 1, per: "1s", types: ["a"] }, { state: { used: 1 } });
    expect(drain(backlog([typeOf("a", 2), typeOf("b", 50)], [limit])).drainsInMs).toBe(2_000);
    expect(drain(backlog([typeOf("b", 50)], [limit]))).toMatchObject({ limits: [], drainsInMs: 0 });
  });

  it("spacing takes the time from start to start", () => {
    const spaced = { every: "500ms", all: true } as const;
    const justNow = limitOf(spaced, { state: { nextInMs: 500, reason: "spacing" } });
    expect(drain(backlog([typeOf("a", 11)], [justNow])).drainsInMs).toBe(5_500);
    expect(drain(backlog([typeOf("a", 11)], [limitOf({ every: "500ms", all: true })]))).toMatchObject({
      drainsInMs: 5_000,
      limits: [{ binds: "spacing" }],
    });
  });

  it("concurrency takes the time that jobs ran", () => {
    const limits = [limitOf({ concurrency: 2, all: true }, { state: { held: 0 } })];
    expect(drain(backlog([typeOf("a", 2, { ranMs: 100 })], limits)).drainsInMs).toBe(0);
    expect(drain(backlog([typeOf("a", 12, { ranMs: 100 })], limits)).drainsInMs).toBe(500);
    const busy = [
      limitOf({ concurrency: 2, all: true }, { state: { held: 2, nextInMs: null, reason: "concurrency" } }),
    ];
    expect(drain(backlog([typeOf("a", 12, { ranMs: 100 })], busy)).drainsInMs).toBe(600);
    const weighed = [limitOf({ concurrency: 16, weight: "gb", all: true })];
    expect(
      drain(backlog([typeOf("a", 8, { ranMs: 100, weights: { gb: { part: 1, mean: 4 } } })], weighed)).drainsInMs,
    ).toBe(100);
  });

  it("the estimate is unknown under concurrency if no job has ever run", () => {
    const limits = [
      limitOf({ concurrency: 2, all: true }, { name: "gpu" }),
      limitOf({ max: 1, per: "1s", all: true }, { state: { used: 1 } }),
    ];
    const explained = drain(backlog([typeOf("a", 3)], limits));
    expect(explained).toMatchObject({ drainsInMs: undefined, atLeastMs: 2_000, bottleneck: "quota" });
    expect(explained.unknown).toEqual([
      "The limit gpu depends on how long jobs run, and none of some type has completed yet.",
    ]);
    expect(explained.text).toContain("It takes 2s at the least.");
    // Two find a slot at once, whatever they take.
    expect(drain(backlog([typeOf("a", 2)], limits.slice(0, 1))).drainsInMs).toBe(0);
  });

  it("a limit by group takes the time of its largest group", () => {
    const limit = limitOf({ max: 10, per: "1s", by: "group", overrides: { acme: { max: 50 } } });
    const explained = drain(backlog([typeOf("a", 1_000, { groups: 20, mostInGroup: 60 })], [limit]));
    expect(explained.drainsInMs).toBe(5_000);
    expect(explained.assumed).toEqual([
      "Of the groups under quota the one with most waiting is taken to have most in use.",
      "It is taken to have no numbers of its own.",
    ]);
    const full = limitOf({ max: 10, per: "1s", by: "group" }, { state: { used: 10, nextInMs: 900, reason: "window" } });
    expect(drain(backlog([typeOf("a", 5)], [full])).drainsInMs).toBe(900);
    expect(drain(backlog([typeOf("a", 60)], [full])).drainsInMs).toBe(6_000);
  });

  it("the estimate of a limit by keys is known if all jobs fit even under one value, and unknown if not", () => {
    const limit = limitOf({ max: 10, per: "1s", by: ["tenant", "model"] });
    expect(drain(backlog([typeOf("a", 10)], [limit])).drainsInMs).toBe(0);
    const explained = drain(backlog([typeOf("a", 11)], [limit]));
    expect(explained).toMatchObject({ drainsInMs: undefined, atLeastMs: 0 });
    expect(explained.unknown).toEqual([
      "The limit quota is by tenant, model, and how many jobs wait for each is not counted.",
    ]);
    expect(drain(backlog([typeOf("a", 5)], [{ ...limit, waiting: 11 }])).drainsInMs).toBeUndefined();
    const held = limitOf({ max: 10, per: "1s", by: "tenant" }, { state: { group: "a", reason: "held", heldForMs: 9 } });
    expect(drain(backlog([typeOf("a", 1)], [held])).drainsInMs).toBeUndefined();
    const own = limitOf({ max: 10, per: "1s", by: "tenant", overrides: { acme: { max: 1 } } });
    expect(drain(backlog([typeOf("a", 5)], [own])).assumed).toEqual([
      "All values under quota are taken to have the same numbers.",
    ]);
    const none = limitOf({ max: 0, per: "1s", by: "tenant" });
    expect(drain(backlog([typeOf("a", 5)], [none])).unknown).toEqual(["The limit quota lets nothing start."]);
  });

  it("the estimate takes the type with the most jobs in a group, and says so, if groups may have jobs of several types", () => {
    const limit = limitOf({ max: 1, per: "1s", concurrency: 1, by: "group" }, { state: { group: "a" } });
    const types = [1, 4, 2].map((most, i) => typeOf(`t${i}`, 10, { groups: 5, mostInGroup: most, ranMs: 100 }));
    const explained = drain(backlog(types, [limit]));
    expect(explained.drainsInMs).toBe(3_000);
    expect(explained.assumed).toContain("Every group under quota is taken to have jobs of one type.");
    expect(drain(backlog(types.slice(0, 1), [limit])).assumed).toHaveLength(1);
  });

  it("the estimate includes jobs of other queues under the limit", () => {
    const limit = limitOf({ max: 10, per: "1s", all: true }, { waiting: 100, state: { used: 10 } });
    const explained = drain(backlog([typeOf("a", 50)], [limit]));
    expect(explained).toMatchObject({ drainsInMs: 10_000, limits: [{ elsewhere: 50 }] });
    expect(explained.assumed).toEqual(["50 jobs of other queues under quota are taken to be like those of this one."]);
  });

  it("the estimate is that of the slowest limit, with its hold", () => {
    const limits = [
      limitOf({ max: 10, per: "1s", all: true }, { name: "fast" }),
      limitOf(
        { max: 1, per: "1s", all: true },
        { name: "slow", state: { nextInMs: 60_000, reason: "held", heldForMs: 60_000 } },
      ),
    ];
    const explained = drain(backlog([typeOf("a", 11)], limits));
    expect(explained.limits.map(({ limit, drainsInMs }) => [limit, drainsInMs])).toEqual([
      ["slow", 70_000],
      ["fast", 100],
    ]);
    expect(explained).toMatchObject({ bottleneck: "slow", drainsInMs: 70_000 });
  });

  it("the estimate takes the longer of a hold and the window in use, which empties meanwhile", () => {
    const held = (ms: number, used: number) =>
      limitOf(
        { max: 10, per: "1m", weight: "t", all: true },
        { state: { used, nextInMs: ms, reason: "held", heldForMs: ms } },
      );
    expect(drain(backlog([typeOf("a", 1)], [held(300_000, 100)])).drainsInMs).toBe(300_000);
    expect(drain(backlog([typeOf("a", 20)], [held(300_000, 100)])).drainsInMs).toBe(360_000);
    expect(drain(backlog([typeOf("a", 5)], [held(1_000, 5)])).drainsInMs).toBe(1_000);
    expect(drain(backlog([typeOf("a", 10)], [held(1_000, 5)])).drainsInMs).toBe(31_000);
    const busy = (ms: number) =>
      limitOf({ concurrency: 2, all: true }, { state: { held: 2, nextInMs: ms, reason: "held", heldForMs: ms } });
    expect(drain(backlog([typeOf("a", 2, { ranMs: 100 })], [busy(10)])).drainsInMs).toBe(100);
    expect(drain(backlog([typeOf("a", 2, { ranMs: 100 })], [busy(5_000)])).drainsInMs).toBe(5_000);
  });

  it("the estimate waits for the end of a hold of all groups, not of one group", () => {
    const limit = limitOf(
      { max: 1, per: "1s", by: "group" },
      { state: { group: "a", nextInMs: 7_000, reason: "held", heldForMs: 7_000 } },
    );
    expect(drain(backlog([typeOf("a", 1)], [limit])).drainsInMs).toBe(0);
    const all = { ...limit, rule: { ...limit.rule, heldUntil: NOW + 7_000 } };
    expect(drain(backlog([typeOf("a", 1)], [all])).drainsInMs).toBe(7_000);
    expect(drain(backlog([typeOf("a", 1)], [{ ...all, states: [] }])).drainsInMs).toBe(0);
  });

  it("the estimate is unknown while a limit, queue or type is paused", () => {
    const paused = limitOf({ concurrency: 1, all: true });
    const limit = { ...paused, rule: { ...paused.rule, paused: true } };
    expect(drain(backlog([typeOf("a", 1)], [limit]))).toMatchObject({
      drainsInMs: undefined,
      bottleneck: "quota",
      unknown: ["The limit quota is paused."],
      limits: [{ stopped: true }],
    });
    const queuePaused = drain(
      backlog([typeOf("a", 1), typeOf("b", 1, { paused: true }), typeOf("c", 0, { paused: true })], [], true),
    );
    expect(queuePaused).toMatchObject({ drainsInMs: undefined, paused: true, pausedTypes: ["b"] });
    expect(queuePaused.unknown).toEqual(['The queue "mail" is paused.', 'Jobs of type "b" are paused.']);
  });

  it.each<LimitDefinition>([
    { max: 0, per: 1, all: true },
    { concurrency: 0, all: true },
  ])("the estimate is unknown under a limit that lets nothing start: %j", (definition) => {
    expect(drain(backlog([typeOf("a", 1)], [limitOf(definition)]))).toMatchObject({
      drainsInMs: undefined,
      unknown: ["The limit quota lets nothing start."],
      bottleneck: "quota",
    });
  });

  it("no backlog drains sooner than it takes at the least", () => {
    const random = chance(20_261);
    const upTo = (most: number) => Math.floor(random() * (most + 1));
    let certain = 0;
    for (let round = 0; round < 2_000; round++) {
      const byGroup = random() < 0.5;
      const max = 1 + upTo(4);
      const everyMs = random() < 0.3 ? 1 + upTo(400) : 0;
      const groups = Array.from({ length: byGroup ? 1 + upTo(3) : 1 }, (_, i) => ({
        group: byGroup ? `g${i}` : null,
        waiting: upTo(12),
        elsewhere: upTo(3),
        // Starts of the last second, oldest first: the next may be due at any time from now.
        past: Array.from({ length: upTo(max) }, () => -upTo(999)).toSorted((a, b) => a - b),
      }));
      const waiting = groups.reduce((sum, one) => sum + one.waiting, 0);
      if (waiting === 0) continue;
      const limit = limitOf({
        max,
        per: "1s",
        ...(everyMs > 0 && { every: everyMs }),
        ...(byGroup ? { by: "group" } : { all: true }),
      });
      const [state] = limit.states;
      const nextOf = (past: readonly number[]) =>
        Math.max(0, past.length < max ? 0 : past.at(-max)! + 1_000, (past.at(-1) ?? -Infinity) + everyMs);
      const states = groups.map(({ group, past }) => {
        const nextInMs = nextOf(past);
        const reason = nextInMs === 0 ? null : past.length < max ? ("spacing" as const) : ("window" as const);
        return { ...state!, group, used: past.length, nextInMs, reason };
      });
      const elsewhere = groups.reduce((sum, one) => sum + one.elsewhere, 0);
      const most = Math.max(...groups.map((one) => one.waiting));
      const types = [typeOf("a", waiting, { groups: groups.length, mostInGroup: most })];
      const { atLeastMs } = drain(backlog(types, [{ ...limit, waiting: waiting + elsewhere, states }]));
      const last = groups.map((one) => {
        const starts = [...one.past];
        for (let n = 0; n < one.waiting; n++) starts.push(nextOf(starts));
        return one.waiting === 0 ? 0 : starts.at(-1)!;
      });
      expect(atLeastMs, `round ${round}`).toBeLessThanOrEqual(Math.max(...last));
      certain += Number(atLeastMs > 0);
    }
    expect(certain).toBeGreaterThan(1_000);
  });

  it("nothing is certain where weights, keys, run times or numbers of groups decide", () => {
    const many = (definition: LimitDefinition) =>
      drain(backlog([typeOf("a", 100, { ranMs: 50 })], [limitOf(definition)])).atLeastMs;
    expect(many({ max: 10, per: "1s", all: true })).toBe(9_000);
    expect(many({ max: 10, per: "1s", by: "group" })).toBe(9_000);
    expect(many({ max: 10, per: "1s", weight: "tokens", all: true })).toBe(0);
    expect(many({ max: 10, per: "1s", by: "tenant" })).toBe(0);
    expect(many({ max: 10, per: "1s", by: "group", overrides: { acme: { max: 50 } } })).toBe(0);
    expect(many({ concurrency: 2, all: true })).toBe(0);
    const held = limitOf({ every: "1s", all: true }, { state: { nextInMs: 7_000, reason: "held", heldForMs: 7_000 } });
    expect(drain(backlog([typeOf("a", 3)], [held])).atLeastMs).toBe(9_000);
  });

  it("the estimate says what it does not count", () => {
    const explained = drain(backlog([typeOf("a", 1, { scheduled: 5, active: 2 })], []));
    expect(explained).toMatchObject({ scheduled: 5, active: 2 });
    expect(explained.assumed).toEqual(["5 more are due later, and are not counted."]);
  });
});

describe("lengths of time in words", () => {
  it.each([
    [500, "500ms"],
    [1_000, "1s"],
    [1_500, "1500ms"],
    [60_000, "1m"],
    [7_200_000, "2h"],
    [86_400_000, "1d"],
    [0.5, "0.5ms"],
    [0, "0ms"],
  ])("a duration is shown in its largest whole unit: %d is %s", (ms, text) => expect(spanText(ms)).toBe(text));

  it.each([
    [0.2, "1ms"],
    [999, "999ms"],
    [1_001, "2s"],
    [61_000, "1m 1s"],
    [3_600_000, "1h"],
    [3_605_000, "1h"],
    [90_000_000, "1d 1h"],
  ])("an estimated duration is shown roughly: %d is %s", (ms, text) => expect(roughText(ms)).toBe(text));
});
