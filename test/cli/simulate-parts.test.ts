import { describe, expect, it } from "vitest";
import { readArguments } from "../../src/cli/arguments.ts";
import { UsageError } from "../../src/cli/failures.ts";
import { allowanceText, scopeText } from "../../src/cli/render/limit-words.ts";
import { plot } from "../../src/cli/render/plot.ts";
import { Arrivals } from "../../src/cli/simulate/arrivals.ts";
import { Busy } from "../../src/cli/simulate/busy.ts";
import { exponential, lognormal, seeded } from "../../src/cli/simulate/chance.ts";
import { later, onGrid, VirtualClock } from "../../src/cli/simulate/clock.ts";
import { QueueWorkers } from "../../src/cli/simulate/queue-workers.ts";
import { PLAN_OPTIONS, planFrom, WORK_OPTIONS } from "../../src/cli/simulate/flags.ts";
import { readLimitText } from "../../src/cli/simulate/limit-text.ts";
import type { Arrival } from "../../src/cli/simulate/plan.ts";
import { readPlan } from "../../src/cli/simulate/read-plan.ts";
import { readWork } from "../../src/cli/simulate/read-work.ts";
import { doubled } from "../../src/cli/simulate/what-if.ts";
import { readLimits } from "../../src/limits/define.ts";

const ruleOf = (text: string) => {
  const { name, definition } = readLimitText(text);
  return readLimits("test", { [name]: definition }).rules[0]!;
};
const flags = (...args: string[]) => planFrom(readArguments(args, { ...PLAN_OPTIONS, ...WORK_OPTIONS }));
const taken = (work: unknown, many: number, seed = 1): Arrival[] => {
  const arrivals = new Arrivals([readWork("test", work, true)], seed);
  return Array.from({ length: many }, () => arrivals.take()!);
};

describe("a limit in words", () => {
  it.each([
    ["mail: 120 per 1m, types send_email send_digest", "120 per 1m", "send_digest, send_email"],
    ["openai: 200,000 tokens per 1m, 5 at a time, type chat", "200,000 tokens per 1m, 5 at a time", "chat"],
    ["memory: 16 gigabytes at a time, queues a b", "16 gigabytes at a time", "queues a, b"],
    ["tenant:10 per 1s,by group", "10 per 1s", "each group"],
    ["tenant: 10 per 1s, per group", "10 per 1s", "each group"],
    ["tenant: 10 per 1s, by tenant", "10 per 1s", "each tenant"],
    ["tenant: 10 per 1s, each tenant model", "10 per 1s", "each tenant and model"],
    ["slow: every 1.5s", "every 1500ms", "all"],
    ["all of it: 3 at a time , every 250ms,  1_000 per 2h", "1,000 per 2h, 3 at a time, every 250ms", "all"],
  ])("%s", (text, allows, scope) => {
    const rule = ruleOf(text);
    expect([allowanceText(rule), scopeText(rule)]).toEqual([allows, scope]);
  });

  it("a limit in words is read whole: estimate and guard too", () => {
    expect(readLimitText("t: 9 tokens per 1m, estimate 3, guard 50ms")).toEqual({
      name: "t",
      definition: { max: 9, per: "1m", weight: "tokens", estimate: 3, guard: "50ms", all: true },
    });
  });

  it.each([
    ["120 per 1m", /a name, a colon/],
    ["mail:", /a name, a colon/],
    ["mail: 120 a minute", /cannot read "120 a minute"; try "120 per 1m"/],
    ["mail: 120 per minute", /cannot read/],
    ["mail: 120 per 1m, 60 per 1s", /"60 per 1s" says `max` again/],
    ["mail: 9 tokens per 1m, 2 gigabytes at a time", /says `weight` again/],
  ])("%j is refused", (text, message) => {
    expect(() => readLimitText(text)).toThrow(UsageError);
    expect(() => readLimitText(text)).toThrow(message);
  });
});

describe("a plan", () => {
  it("a plan is made from options", () => {
    const line = `--jobs 100 --rate 5/s --arrivals poisson --burst 50 --type x --group-count 3 --duration 2s --spread 0.5
      --weight tokens=200..900 --weight cost=3 --used tokens=0.6
      --workers 4 --concurrency 7 --for 2h --seed 9 --max-jobs 500`;
    const plan = flags("--limit", "a: 5 per 1s", "--limit", "b: 2 at a time, types x", ...line.split(/\s+/));
    expect(plan).toMatchObject({ workers: 4, concurrency: 7, forMs: 7_200_000, seed: 9, maxJobs: 500 });
    expect(plan.limits.map(({ name }) => name)).toEqual(["a", "b"]);
    expect(plan.work).toEqual([
      {
        queue: "work",
        type: "x",
        priority: 0,
        jobs: 100,
        burst: 50,
        everyMs: 200,
        arrivals: "poisson",
        fromMs: 0,
        groups: {
          shares: [
            ["g1", 1],
            ["g2", 1],
            ["g3", 1],
          ],
          byTurns: true,
        },
        keys: {},
        durationMs: 2_000,
        spread: 0.5,
        weights: { tokens: [200, 900], cost: [3, 3] },
        used: { tokens: 0.6 },
      },
    ]);
  });

  it.each([
    [[], /which jobs\? Say --jobs, --rate or --burst/],
    [["--type", "a"], /--jobs to be given, or else --rate or --burst/],
    [["--jobs", "many"], /--jobs to be a number, got "many"/],
    [["--jobs", "0"], /--jobs to be an integer >= 1, got "0"/],
    [["--rate", "5"], /--rate to be a rate such as "5\/s"/],
    [["--rate", "0/s", "--for", "1h"], /--rate to be a rate/],
    [["--rate", "5/s"], /--jobs to be given, or else --for: with --rate alone they come for ever/],
    [["--jobs", "5", "--arrivals", "poisson"], /--arrivals to be left out where there is no --rate/],
    [["--jobs", "5", "--burst", "2"], /--burst to be left out/],
    [["--jobs", "5", "--rate", "1/s", "--burst", "9"], /--burst to be at most --jobs, 5/],
    [["--jobs", "5", "--group-count", "0"], /--group-count to be an integer/],
    [["--jobs", "5", "--weight", "tokens"], /--weight to be a name and a number/],
    [["--jobs", "5", "--weight", "t=9..2"], /--weight t to be an integer/],
    [["--jobs", "5", "--weight", "t=1", "--weight", "t=2"], /"t" is there twice/],
    [["--jobs", "5", "--used", "t=0.5"], /--used t to be left out where --weight does not have that name/],
    [["--jobs", "5", "--workers", "0"], /--workers to be an integer from 1/],
    [["--jobs", "5", "--for", "soon"], /--for to be a duration/],
    [["--jobs", "5", "--limit", "a: 1 per 1s", "--limit", "a: 2 per 1s"], /"a" is there twice/],
  ])("%j is refused", (args, message) => {
    expect(() => flags(...args)).toThrow(message);
  });

  it("a plan in a file is refused with the part that is wrong", () => {
    const work = [{ jobs: 1 }, { type: "b", rat: "5/s" }];
    expect(() => readPlan("plan.json", { work })).toThrow(/plan.json work\[1\]: expected `rat`.*did you mean `rate`/);
    expect(() => readPlan("plan.json", { limits: { a: { max: 1 } }, work: [{ jobs: 1 }] })).toThrow(/limits\.a.*`per`/);
    expect(() => readPlan("plan.json", { jobs: 3 })).toThrow(/`jobs` to be left out/);
    expect(() => readPlan("plan.json", {})).toThrow(/`work` to be an array/);
    expect(() => readPlan("plan.json", { work: [{ jobs: 1, groups: { a: 0 } }] })).toThrow(/`groups`/);
    expect(() => readPlan("plan.json", { work: [{ jobs: 1, keys: { tenant: 0 } }] })).toThrow(/`keys\.tenant`/);
    expect(() => readPlan("plan.json", { work: [{ jobs: 1, keys: { group: 2 } }] })).toThrow(/`keys`.*no name "group"/);
    expect(() => flags("--jobs", "1", "--key-count", "tenant=0")).toThrow(/--key-count tenant/);
  });

  it("a plan with twice as much of something doubles that alone", () => {
    const plan = readPlan("test", {
      limits: { a: { max: 5, per: "1s", by: "group", overrides: { x: { max: 9 } } }, b: { every: "1s", all: true } },
      work: [{ jobs: 1 }],
      workers: 3,
    });
    expect(doubled(plan, "a")!.limits[0]).toMatchObject({
      quota: { max: 10, windowMs: 1_000 },
      groups: { x: { max: 18 } },
    });
    expect(doubled(plan, "b")!.limits[1]!.quota).toMatchObject({ max: null, everyMs: 500 });
    expect(doubled(plan, "workers")).toMatchObject({ workers: 6 });
    expect(doubled(plan, "turn")).toBeUndefined();
  });
});

describe("arrivals", () => {
  it("arrivals come at once, steadily, and after a burst", () => {
    expect(taken({ jobs: 3 }, 3).map(({ at }) => at)).toEqual([0, 0, 0]);
    expect(taken({ rate: "4/s" }, 4).map(({ at }) => at)).toEqual([0, 250, 500, 750]);
    expect(taken({ rate: "1/s", burst: 2, from: "5s" }, 4).map(({ at }) => at)).toEqual([5_000, 5_000, 6_000, 7_000]);
  });

  it("arrivals by chance come as often as they should, and the same for the same seed", () => {
    const work = { rate: "10/s", arrivals: "poisson", duration: "200ms", spread: 1, weights: { tokens: [1, 99] } };
    const many = taken(work, 20_000);
    expect(many.at(-1)!.at / 20_000).toBeGreaterThan(97);
    expect(many.at(-1)!.at / 20_000).toBeLessThan(103);
    const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
    expect(Math.abs(mean(many.map(({ durationMs }) => durationMs)) / 200 - 1)).toBeLessThan(0.05);
    expect(Math.abs(mean(many.map(({ weights }) => weights!["tokens"]!)) / 50 - 1)).toBeLessThan(0.05);
    expect(taken(work, 100)).toEqual(many.slice(0, 100));
    expect(taken(work, 100, 2)[9]!.at).not.toBe(many[9]!.at);
  });

  it("arrivals belong to groups by turns, or by proportion", () => {
    const keys = taken({ jobs: 6, keys: { tenant: 2, model: 3 } }, 6).map((one) => Object.values(one.keys!).join(" "));
    expect(new Set(keys).size).toBe(6);
    expect(keys[0]).toBe("tenant1 model1");
    expect(flags("--jobs", "1", "--key-count", "tenant=2").work[0]?.keys).toMatchObject({ tenant: { byTurns: true } });
    expect(taken({ jobs: 5, groups: 2 }, 5).map(({ group }) => group)).toEqual(["g1", "g2", "g1", "g2", "g1"]);
    const drawn = taken({ jobs: 10_000, groups: { big: 9, small: 1 } }, 10_000);
    const small = drawn.filter(({ group }) => group === "small").length;
    expect(small).toBeGreaterThan(900);
    expect(small).toBeLessThan(1_100);
  });

  it("arrivals of several kinds come in order", () => {
    const kinds = [
      readWork("a", { type: "a", rate: "1/s", jobs: 2 }, false),
      readWork("b", { type: "b", jobs: 1, from: "500ms" }, false),
    ];
    const arrivals = new Arrivals(kinds, 1);
    const seen = [];
    for (let next = arrivals.take(); next !== undefined; next = arrivals.take()) seen.push([next.work.type, next.at]);
    expect(seen).toEqual([
      ["a", 0],
      ["b", 500],
      ["a", 1_000],
    ]);
    expect(arrivals.nextAt).toBe(Number.POSITIVE_INFINITY);
  });
});

describe("parts of a simulation", () => {
  it("a clock goes forwards alone", () => {
    const clock = new VirtualClock();
    clock.moveTo(5);
    clock.moveTo(3);
    expect([clock.now(), clock.wall()]).toEqual([5, 5]);
    expect(() => clock.after()).toThrow(/no timers/);
    expect(onGrid(0.3) * 1_024).toBe(307);
    expect(later(7, 5)).toBe(7);
    expect(later(5, 5)).toBeGreaterThan(5);
  });

  it("chance is even, and its means are right", () => {
    const random = seeded(7);
    const values = Array.from({ length: 50_000 }, () => random());
    expect(Math.min(...values)).toBeGreaterThanOrEqual(0);
    expect(Math.max(...values)).toBeLessThan(1);
    for (let tenth = 0; tenth < 10; tenth++) {
      const within = values.filter((value) => Math.floor(value * 10) === tenth).length;
      expect(Math.abs(within - 5_000)).toBeLessThan(300);
    }
    const mean = (draw: () => number) => Array.from({ length: 50_000 }, draw).reduce((a, b) => a + b, 0) / 50_000;
    expect(Math.abs(mean(() => exponential(random, 3)) - 3)).toBeLessThan(0.1);
    expect(Math.abs(mean(() => lognormal(random, 3, 0.5)) - 3)).toBeLessThan(0.1);
    expect(lognormal(random, 3, 0)).toBe(3);
  });

  it("a workers gives jobs to its workers in turn, as long as one has an unused slot", () => {
    const workers = new QueueWorkers("q", 2, 2);
    const seen = [];
    for (let next = workers.next(); next !== undefined; next = workers.next()) {
      seen.push(next.worker);
      workers.take(next.worker, 1);
    }
    expect(seen).toEqual([0, 1, 0, 1]);
    workers.give(1);
    expect([workers.free, workers.next()]).toEqual([1, { worker: 1, free: 1 }]);
  });

  it("stretches of waiting are joined, and their parts measured", () => {
    const busy = new Busy();
    busy.add(0, 10);
    busy.add(5, 12);
    busy.add(6, 7);
    busy.add(20, 20);
    busy.add(20, 30);
    expect(busy.total).toBe(22);
    expect([
      busy.within(0, 100),
      busy.within(10, 25),
      busy.within(12, 20),
      busy.within(-5, 1),
      busy.within(29, 99),
    ]).toEqual([22, 7, 0, 1, 1]);
  });
});

describe("a plot", () => {
  const values = [0, 0.01, 1, 2, 3, 4, 5, 6, 7, 8];

  it("a plot has a bar for each value, and shows something wherever there is something", () => {
    expect(plot(values, 60_000, { rows: 2, ascii: false })).toBe(
      ["       8 ┤      ▂▄▆█", "         ┤ ▁▂▄▆█████", "       0 └──────────", "          0     10 m", ""].join("\n"),
    );
  });

  it("a plot needs no special characters", () => {
    const drawn = plot(values, 1_000, { rows: 2, ascii: true });
    expect(drawn).toBe(
      ["       8 |      .::#", "         | ..::#####", "       0 +----------", "          0     10 s", ""].join("\n"),
    );
    expect(drawn).toMatch(/^[\x20-\x7e\n]*$/);
  });

  it("a plot names the middle where it fits", () => {
    const [axis] = plot(
      Array.from({ length: 40 }, () => 1),
      60_000,
      { rows: 1, ascii: true },
    )
      .split("\n")
      .slice(2);
    expect(axis).toBe(`${" ".repeat(10)}0${" ".repeat(17)}20 m${" ".repeat(14)}40 m`);
  });

  it("a plot is empty where nothing was", () => {
    expect(plot([0, 0], 1_000, { rows: 1, ascii: false })).toContain("0 ┤\n");
  });
});
