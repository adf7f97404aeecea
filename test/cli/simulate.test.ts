import { describe, expect, it } from "vitest";
import { bottleneckText } from "../../src/cli/render/simulation.ts";
import type { Run } from "../../src/cli/simulate/runs.ts";
import { play } from "../../src/cli/simulate/play.ts";
import { readPlan } from "../../src/cli/simulate/read-plan.ts";
import { seriesOf } from "../../src/cli/simulate/series.ts";
import { simulate } from "../../src/cli/simulate/simulate.ts";

const planOf = (plan: object) => readPlan("test", plan);
const mail = { mail: { max: 60, per: "1m", types: ["send"] } };

/** At which instants how many started. */
function startsOf(runs: readonly Run[]): [number, number][] {
  const counts = new Map<number, number>();
  for (const { startedAt } of runs) if (startedAt !== null) counts.set(startedAt, (counts.get(startedAt) ?? 0) + 1);
  return [...counts].toSorted(([a], [b]) => a - b);
}

describe("a simulation is exact", () => {
  it("600 jobs under 60 a minute start at ten instants, a minute apart", async () => {
    const plan = planOf({ limits: mail, concurrency: 100, work: [{ type: "send", jobs: 600, duration: "200ms" }] });
    const { played, summary } = await simulate(plan);
    expect(startsOf(played.runs)).toEqual(Array.from({ length: 10 }, (_, i) => [i * 60_000, 60]));
    expect(summary).toMatchObject({
      jobs: { added: 600, started: 600, ended: 600, waiting: 0 },
      ended: "done",
      endedAt: 9 * 60_000 + 200,
      bottleneck: "mail",
      waits: { all: { jobs: 600, p50: 4 * 60_000, p90: 8 * 60_000, p99: 9 * 60_000, max: 9 * 60_000 } },
    });
    expect(summary.perMinute.atTheEnd).toBe(60);
    expect(summary.perMinute.overall).toBeCloseTo(600 / (9 + 0.2 / 60), 10);
    expect(summary.limits).toMatchObject([
      { name: "mail", use: 1, share: 1 },
      { name: "workers", share: 0 },
    ]);
  });

  it("two at a time of a second each are two a second", async () => {
    const plan = planOf({ limits: { gpu: { concurrency: 2, all: true } }, work: [{ jobs: 20, duration: "1s" }] });
    const { played, summary } = await simulate(plan);
    expect(startsOf(played.runs)).toEqual(Array.from({ length: 10 }, (_, i) => [i * 1_000, 2]));
    expect(summary).toMatchObject({ endedAt: 10_000, perMinute: { overall: 120, atTheEnd: 120 } });
    expect(summary.limits[0]).toMatchObject({ use: 1, share: 1 });
  });

  it("every combination of keys has a limit of its own", async () => {
    const limits = { each: { max: 1, per: "1m", by: ["tenant", "model"] }, busy: { concurrency: 1, by: "tenant" } };
    const work = [{ jobs: 12, duration: "1s", keys: { tenant: 3, model: 2 } }];
    const { played, summary } = await simulate(planOf({ limits, work, concurrency: 100 }));
    expect(startsOf(played.runs)).toEqual([
      [0, 3],
      [1_000, 3],
      [60_000, 3],
      [61_000, 3],
    ]);
    expect(summary.limits.find(({ name }) => name === "each")).toMatchObject({ use: expect.closeTo(1, 1) });
  });

  it("spacing is from start to start", async () => {
    const plan = planOf({ limits: { crawl: { every: "500ms", all: true } }, work: [{ jobs: 5, duration: "3s" }] });
    const { played, summary } = await simulate(plan);
    expect(startsOf(played.runs)).toEqual([0, 500, 1_000, 1_500, 2_000].map((at) => [at, 1]));
    expect(summary.limits[0]).toMatchObject({ use: 1, share: 1 });
  });

  it("as many start as the weights allow", async () => {
    const limits = { tokens: { max: 10_000, per: "1m", weight: "tokens", all: true } };
    const work = { jobs: 20, duration: "200ms", weights: { tokens: 1_200 } };
    const played = await play(planOf({ limits, concurrency: 50, work: [work] }));
    expect(startsOf(played.runs)).toEqual([
      [0, 8],
      [60_000, 8],
      [120_000, 4],
    ]);
  });

  it("unused weight is returned when a job ends, and use beyond the weight is charged", async () => {
    const limits = { tokens: { max: 10_000, per: "1m", weight: "tokens", all: true } };
    const work = { jobs: 17, duration: "200ms", weights: { tokens: 1_200 } };
    const half = await play(planOf({ limits, concurrency: 50, work: [{ ...work, used: { tokens: 0.5 } }] }));
    // 8 x 1200 start, and count for 600 each when they end; and so on, until 1200 no longer fit.
    expect(startsOf(half.runs)).toEqual([
      [0, 8],
      [200, 4],
      [400, 2],
      [600, 1],
      [60_000, 2],
    ]);
    const more = await play(planOf({ limits, concurrency: 50, work: [{ ...work, used: { tokens: 1.5 } }] }));
    expect(startsOf(more.runs)).toEqual([
      [0, 8],
      [60_000, 8],
      [120_000, 1],
    ]);
    const late = await play(
      planOf({ limits, concurrency: 50, work: [{ ...work, duration: "50s", used: { tokens: 2 } }] }),
    );
    // At 50 s they turn out to have used 19,200: nothing fits before all of it has left the window.
    expect(startsOf(late.runs)).toEqual([
      [0, 8],
      [60_000, 8],
      [120_000, 1],
    ]);
  });

  it("every group has a limit of its own, and some have other numbers", async () => {
    const limits = { tenant: { max: 1, per: "1s", by: "group", overrides: { big: { max: 3 } } } };
    const kinds = ["big", "small"].map((name) => ({ jobs: 6, duration: "10ms", groups: { [name]: 1 } }));
    const { runs } = await play(planOf({ limits, work: kinds }));
    const of = (name: string) => startsOf(runs.filter(({ group }) => group === name));
    expect(of("big")).toEqual([
      [0, 3],
      [1_000, 3],
    ]);
    expect(of("small")).toEqual([0, 1, 2, 3, 4, 5].map((second) => [second * 1_000, 1]));
  });

  it("workers are a limit too", async () => {
    const plan = planOf({ workers: 2, concurrency: 3, work: [{ jobs: 18, duration: "1s" }] });
    const { played, summary, doubled } = await simulate(plan);
    expect(startsOf(played.runs)).toEqual([0, 1_000, 2_000].map((at) => [at, 6]));
    expect(summary).toMatchObject({ bottleneck: "workers", limits: [{ name: "workers", use: 1, share: 1 }] });
    expect(doubled).toMatchObject({ endedAt: 2_000, bottleneck: "workers" });
  });

  it("a limit over two queues binds both crews", async () => {
    const work = ["a", "b"].map((queue) => ({ queue, jobs: 10, duration: "10ms" }));
    const { runs } = await play(planOf({ limits: { api: { max: 4, per: "1s", queues: ["a", "b"] } }, work }));
    expect(startsOf(runs)).toEqual([0, 1_000, 2_000, 3_000, 4_000].map((at) => [at, 4]));
    expect(runs.every(({ endedAt }) => endedAt !== null)).toBe(true);
  });

  it("jobs of higher priority start first", async () => {
    const work = [
      { type: "low", jobs: 4, duration: "10ms" },
      { type: "high", jobs: 2, duration: "10ms", priority: 5, from: "500ms" },
    ];
    const { runs } = await play(planOf({ limits: { api: { max: 1, per: "1s", all: true } }, work }));
    const order = runs.toSorted((a, b) => a.startedAt! - b.startedAt!).map((run) => run.work.type);
    expect(order).toEqual(["low", "high", "high", "low", "low", "low"]);
  });
});

describe("a simulation by chance", () => {
  const plan = planOf({
    limits: {
      api: { max: 30, per: "10s", types: ["a", "b"] },
      gpu: { concurrency: 4, types: ["b"] },
      tenant: { max: 5, per: "5s", by: "group" },
    },
    workers: 3,
    for: "20m",
    seed: 4,
    work: [
      { type: "a", rate: "2/s", arrivals: "poisson", duration: "300ms", spread: 1, groups: 7 },
      { type: "b", rate: "1/s", arrivals: "poisson", duration: "2s", spread: 0.5, groups: { x: 5, y: 1 } },
    ],
  });

  it("a random simulation never breaks a limit", async () => {
    const { runs } = await play(plan);
    const started = runs.filter(({ startedAt }) => startedAt !== null);
    expect(started.length).toBeGreaterThan(1_000);
    const most = (times: readonly number[], windowMs: number) => {
      const sorted = times.toSorted((a, b) => a - b);
      let from = 0;
      return Math.max(
        ...sorted.map((at, i) => {
          while (at - sorted[from]! >= windowMs) from += 1;
          return i - from + 1;
        }),
      );
    };
    const times = (some: readonly Run[]) => some.map(({ startedAt }) => startedAt!);
    expect(most(times(started), 10_000)).toBe(30);
    for (const own of Map.groupBy(started, ({ group }) => group).values()) {
      expect(most(times(own), 5_000)).toBeLessThanOrEqual(5);
    }
    const gpu = started.filter(({ work }) => work.type === "b");
    for (const { startedAt } of gpu) {
      const beside = gpu.filter((one) => one.startedAt! <= startedAt! && (one.endedAt ?? Infinity) > startedAt!);
      expect(beside.length).toBeLessThanOrEqual(4);
    }
  });

  it("a random simulation is the same for the same seed, and another for another", async () => {
    const [one, same, other] = await Promise.all([simulate(plan), simulate(plan), simulate({ ...plan, seed: 5 })]);
    expect(same.summary).toEqual(one.summary);
    expect(seriesOf(same.played, 50)).toEqual(seriesOf(one.played, 50));
    expect(other.summary).not.toEqual(one.summary);
  });

  it("a random simulation counts the time of every job that waits, once", async () => {
    const { runs, endedAt, blame } = await play(plan);
    const waited = runs.reduce((sum, { at, startedAt }) => sum + (startedAt ?? endedAt) - at, 0);
    const blamed = [...blame.values()].reduce((sum, ms) => sum + ms, 0);
    expect(blamed / waited).toBeCloseTo(1, 9);
    const series = seriesOf({ runs, endedAt, blame, held: new Map(), ended: "time", capped: false, claims: 0 }, 40);
    const area = series.waiting.reduce((sum, jobs, i) => {
      return sum + jobs * Math.min(series.bucketMs, endedAt - i * series.bucketMs);
    }, 0);
    expect(area / waited).toBeCloseTo(1, 9);
    expect(series.starts.reduce((sum, starts) => sum + starts, 0)).toBe(
      runs.filter((run) => run.startedAt !== null).length,
    );
  });
});

describe("the bottleneck", () => {
  it("the bottleneck is named, and the next one too", async () => {
    const limits = {
      tokens: { max: 600, per: "1m", weight: "tokens", types: ["chat"] },
      gpu: { concurrency: 1, types: ["chat"] },
    };
    // 6 a minute by tokens, 10 a minute by the GPU.
    const work = [{ type: "chat", jobs: 120, duration: "6s", weights: { tokens: 100 } }];
    const { summary, doubled } = await simulate(planOf({ limits, work }));
    expect(summary.bottleneck).toBe("tokens");
    expect(summary.perMinute.atTheEnd).toBeCloseTo(6, 1);
    expect(doubled!.bottleneck).toBe("gpu");
    expect(doubled!.perMinute.atTheEnd).toBeCloseTo(10, 1);
    expect(doubled!.limits.find(({ name }) => name === "gpu")!.use).toBeCloseTo(1, 2);
  });

  it("the bottleneck is none where nothing waited", async () => {
    const { summary, doubled } = await simulate(
      planOf({ limits: mail, work: [{ type: "send", jobs: 60, rate: "1/m" }] }),
    );
    expect(summary).toMatchObject({ bottleneck: null, waits: { all: { max: 0 } } });
    expect(summary.limits[0]).toMatchObject({ use: null, share: 0 });
    expect(doubled).toBeNull();
  });

  it("the bottleneck is the limit that a heavy job of another type waits for", async () => {
    const limits = { tokens: { max: 10, per: "1m", weight: "tokens", all: true } };
    const work = [
      { type: "first", jobs: 1, weights: { tokens: 5 } },
      { type: "heavy", jobs: 1, from: "1s", weights: { tokens: 9 } },
      { type: "light", jobs: 1, from: "2s", weights: { tokens: 1 } },
    ];
    const { played, summary } = await simulate(planOf({ limits, work }));
    expect(played.runs.map(({ startedAt }) => startedAt)).toEqual([0, 60_000, 60_000]);
    expect(summary.limits[0]).toMatchObject({ name: "tokens", share: 1 });
  });
});

describe("a simulation ends", () => {
  it("a simulation ends when its time is over", async () => {
    const plan = planOf({
      limits: mail,
      for: "150s",
      concurrency: 100,
      work: [{ type: "send", rate: "10/s", duration: "1s" }],
    });
    const { summary } = await simulate(plan);
    // A window began with the first job: 60 have started by 5.9 s, 60 more by 65.9 s, and by 125.9 s.
    expect(summary).toMatchObject({
      ended: "time",
      endedAt: 150_000,
      jobs: { added: 1_501, started: 180, waiting: 1_321 },
    });
    expect(summary.perMinute.atTheEnd).toBe(60);
  });

  it("a simulation ends when nothing can ever start", async () => {
    for (const shut of [
      { concurrency: 0, all: true },
      { max: 0, per: "1m", all: true },
    ]) {
      const simulation = await simulate(
        planOf({ limits: { open: { max: 1, per: "1m", all: true }, shut }, work: [{ jobs: 3 }] }),
      );
      expect(simulation.summary).toMatchObject({
        ended: "stuck",
        jobs: { started: 0, waiting: 3 },
        bottleneck: "shut",
      });
      expect(simulation.doubled).toBeNull();
      expect(bottleneckText(simulation)).toBe("shut holds what can never start: it allows nothing.");
    }
  });

  it("a simulation that ends names the blocker of jobs that can never start, whatever others waited for", async () => {
    const simulation = await simulate(
      planOf({
        limits: { slow: { max: 1, per: "1m", types: ["a"] }, shut: { max: 0, per: "1m", types: ["b"] } },
        work: [
          { type: "a", jobs: 5 },
          { type: "b", jobs: 1 },
        ],
      }),
    );
    expect(simulation.summary).toMatchObject({ ended: "stuck", jobs: { ended: 5, waiting: 1 }, bottleneck: "shut" });
  });

  it("a simulation does not double a limit of 0", async () => {
    const simulation = await simulate(
      planOf({ limits: { shut: { max: 0, per: "1m", all: true } }, work: [{ rate: "1/s" }], for: "1m" }),
    );
    expect(simulation.summary).toMatchObject({ ended: "time", bottleneck: "shut" });
    expect(bottleneckText(simulation)).toBe("shut held 100 % of the waiting: it allows nothing.");
  });

  it("a simulation ends with as many jobs as it may have", async () => {
    const { summary } = await simulate(planOf({ maxJobs: 50, work: [{ jobs: 500 }] }));
    expect(summary).toMatchObject({ ended: "done", capped: true, jobs: { added: 50, ended: 50 } });
  });
});
