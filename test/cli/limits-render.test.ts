import { beforeEach, describe, expect, it } from "vitest";
import { plain } from "../../src/cli/io.ts";
import { explanationText, queueExplanationText, waitingLine } from "../../src/cli/render/explanation.ts";
import { groupWords, limitWords } from "../../src/cli/render/limit-words.ts";
import { limitsTable, limitText } from "../../src/cli/render/limits.ts";
import { readLimits } from "../../src/limits/define.ts";
import { Queue } from "../../src/queue/queue.ts";
import { drain } from "../../src/storage/drain.ts";
import { explainJob } from "../../src/storage/explain.ts";
import type { LimitState } from "../../src/storage/limit-storage.ts";
import { MemoryStorage } from "../../src/storages/memory/job-storage.ts";
import { FakeClock } from "../../src/testing/fake-clock.ts";
import { liveWorker } from "../live-worker.ts";

const surface = { paint: plain, columns: undefined };
/** Noon, wherever this runs. */
const NOON = new Date(2030, 0, 2, 12, 0, 0).getTime();

let clock: FakeClock;
let storage: MemoryStorage;
let queue: Queue;
beforeEach(async () => {
  clock = new FakeClock(NOON);
  storage = new MemoryStorage({ clock });
  queue = new Queue("work", { storage, clock });
  await liveWorker(storage, "work");
});

const define = (limits: object) => storage.limits.define(readLimits("test", limits).rules);
const read = async (name: string): Promise<LimitState> => (await storage.limits.read({ name, group: null }))[0]!;
const stateOf = async (name: string) => limitWords(await read(name), clock.wall()).text;
const claim = (max = 10) =>
  storage.claim({ queue: "work", worker: "w", max, types: null, leaseMs: 600_000, limits: [], settle: [] });
const explain = async (id: string) => explainJob((await storage.explain(id))!);
const add = (many: number, type = "send", options = {}) =>
  queue.addBulk(Array.from({ length: many }, () => ({ type, data: null, options })));

describe("the state of a limit", () => {
  it("the state of a limit is full until an instant, or until one ends", async () => {
    await define({
      mail: { max: 2, per: "1m", all: true },
      gpu: { concurrency: 3, all: true },
      slow: { every: "90s", queues: ["none"] },
    });
    expect(await stateOf("mail")).toBe("open");
    await add(3);
    await claim();
    expect(await stateOf("mail")).toBe("full until 12:01:00");
    await storage.limits.change("gpu", { quota: { concurrency: 2 }, group: null });
    expect(await stateOf("gpu")).toBe("full until one ends");
    expect(await stateOf("slow")).toBe("open");
    await clock.advance(60_000);
    expect(await stateOf("mail")).toBe("open");
  });

  it("the state of a limit is paused, held, closed, or what a service says", async () => {
    await define({ mail: { max: 2, per: "1m", all: true } });
    await storage.limits.change("mail", { remaining: 0, resetMs: 30_000, group: null });
    expect(await stateOf("mail")).toBe("used up, says the service, until 12:00:30");
    await storage.limits.change("mail", { holdMs: 3_000, group: null });
    expect(await stateOf("mail")).toBe("held until 12:00:03");
    await storage.limits.change("mail", { paused: true });
    expect(await stateOf("mail")).toBe("paused");
    await storage.limits.change("mail", { paused: false });
    await storage.limits.change("mail", { quota: { max: 0 }, group: null });
    expect(await stateOf("mail")).toBe("closed: allows none");
  });

  it("the state of a limit is that of its breaker", async () => {
    await define({ api: { concurrency: 5, all: true, breaker: { failures: 1, open: "30s" } } });
    await add(2);
    const { jobs } = await claim(1);
    const error = { name: "Error", message: "down" };
    await storage.settle([{ id: jobs[0]!.id, token: jobs[0]!.token, to: "dead", error }]);
    expect(await stateOf("api")).toBe("breaker open until 12:00:30");
    await clock.advance(30_000);
    expect(await stateOf("api")).toBe("breaker half-open");
  });

  it("the state of a limit by group is how many groups are full", async () => {
    await define({ tenant: { max: 1, per: "1m", by: "group" } });
    expect(await stateOf("tenant")).toBe("open");
    await add(1, "send", { group: "a" });
    await storage.limits.change("tenant", { holdMs: 0, group: "b" });
    await claim();
    const state = await read("tenant");
    expect(limitWords(state, clock.wall()).text).toMatch(/^1 of \d groups? full$/);
    expect(
      groupWords(
        state.rule,
        state.states.find(({ group }) => group === "a")!,
        clock.wall(),
      ).text,
    ).toBe("full until 12:01:00");
  });
});

describe("limits as text", () => {
  it("limits as text fit into 80 columns, whatever the names and numbers", async () => {
    const long = "a_limit_with_a_name_that_goes_on_and_on_for_longer_than_anybody_would_like_it_to";
    const most = 9_007_199_254_740_991;
    await define({
      [long]: {
        max: most,
        per: "1m",
        concurrency: most,
        types: ["one_type", "another_type", "and_a_third_one_of_them"],
        weight: "tokens",
        by: "group",
        overrides: { acme: { max: 5, concurrency: 7, share: 3 } },
        breaker: { failures: 5, open: "30s", probes: 2, kinds: ["ETIMEDOUT", "ECONNRESET", "ECONNREFUSED", "EPIPE"] },
      },
      general: { max: most, per: "1m", concurrency: most, all: true },
    });
    const jobs = await add(4, "one_type", { group: "acme", weights: { tokens: 3 } });
    await claim();
    await storage.limits.change("general", { holdMs: 90_000_000, group: null });
    const narrow = { paint: plain, columns: 80 };
    const last = { ...(await explain(jobs[3]!.id)), id: "1" };
    const backlog = drain(await storage.backlog("work"));
    const texts = [
      limitsTable(await storage.limits.read({ name: null, group: null }), clock.wall(), narrow),
      limitText(await read("general"), clock.wall(), narrow),
      limitText(await read(long), clock.wall(), narrow).replace(long, ""),
      explanationText(last, clock.wall(), narrow).replace(long, ""),
      queueExplanationText(backlog, clock.wall(), narrow).replaceAll(long, "x".repeat(20)),
    ];
    for (const line of texts.flatMap((text) => text.split("\n"))) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("limits are a table", async () => {
    await define({
      email_provider: { max: 120, per: "1m", types: ["send_email", "send_digest"] },
      gpu: { concurrency: 2, types: ["infer"] },
      openai_tokens: { max: 200_000, per: "1m", concurrency: 5, weight: "tokens", estimate: 1_500, types: ["chat"] },
      tenant: { max: 10, per: "1s", by: "group", overrides: { acme: { max: 50 } } },
    });
    await add(3, "infer", { group: "acme" });
    await add(2, "chat", { weights: { tokens: 12_345 } });
    await claim();
    await storage.limits.change("email_provider", { quota: { max: 60 }, group: null });
    expect(limitsTable(await storage.limits.read({ name: null, group: null }), clock.wall(), surface))
      .toMatchInlineSnapshot(`
      "limit           allows                              for                                used  held  waiting  state
      email_provider  60 per 1m*                          send_digest, send_email            0/60              0  open
      gpu             2 at a time                         infer                                     2/2        1  full until one ends
      openai_tokens   200,000 tokens per 1m, 5 at a time  chat                     24,690/200,000   2/5        0  open
      tenant          10 per 1s                           each group                                           1  open, 2 groups in use
      * changed by hand
      "
    `);
  });

  it("limits are shown one by one", async () => {
    await define({
      tenant: { max: 1, per: "1m", types: ["send"], by: "group", overrides: { acme: { max: 50, share: 2 } } },
    });
    await add(2, "send", { group: "small" });
    await add(1, "send", { group: "acme" });
    await claim();
    expect(limitText(await read("tenant"), clock.wall(), surface)).toMatchInlineSnapshot(`
      "limit      tenant
      state      1 of 2 groups full
      allows     1 per 1m
      for        send; each group
      overrides  acme: 50 per 1m, 2 in a turn
      waiting    1 job
      groups     2 in use
      revision   1

      group  used  held  state
      small   1/1        full until 12:01:00
      acme   1/50        open
      "
    `);
  });
});

describe("an explanation as text", () => {
  it("an explanation as text has every blocker of a job", async () => {
    await define({ mail: { max: 2, per: "1m", all: true }, gpu: { concurrency: 2, all: true } });
    const jobs = await add(4);
    await claim();
    await clock.advance(56_800);
    const explained = await explain(jobs[3]!.id);
    const text = explanationText({ ...explained, id: "the-id" }, clock.wall(), surface);
    expect(text).toMatchInlineSnapshot(`
      "id        the-id
      queue     work
      type      send
      state     waiting
      position  behind 1 job of its group
      held by   gpu: 2/2 at a time, until one ends
                mail: 2/2 used, until 12:01:00 (in 3.2 s)
      earliest  cannot be estimated; not before 12:01:00 (in 3.2 s)
      "
    `);
    expect(waitingLine(explained, clock.wall())).toBe(
      "gpu: 2/2 at a time, until one ends (and 1 more: sluice explain)",
    );
  });

  it("an explanation as text shows the jobs before it as its position", async () => {
    const [, second] = await add(2);
    const explained = await explain(second!.id);
    const text = explanationText(explained, clock.wall(), surface);
    expect(text).toContain(
      "position  behind 1 job of its group\nheld by   nothing: it starts when a worker asks\nearliest  now\n",
    );
    expect(waitingLine(explained, clock.wall())).toBe("a worker");
  });

  it("an explanation as text says that jobs before it may start first", async () => {
    await define({ mail: { max: 9, per: "1m", weight: "n", all: true } });
    const [, second] = await add(2, "send", { weights: { n: 2 }, group: "b" });
    await add(1, "send", { weights: { n: 2 }, priority: 3 });
    const third = await queue.add("send", null, { weights: { n: 2 }, group: "c" });
    const text = explanationText(await explain(second!.id), clock.wall(), surface);
    expect(text).toContain(
      "position  behind 1 job of its group and 1 job of other groups by turns and 1 job of a higher",
    );
    expect(text).toContain("\nheld by   jobs before it, which may start first\nearliest  now\n");
    expect(waitingLine(await explain(third.id), clock.wall())).toBe("those before it");
  });

  it("an explanation as text says that nothing blocks a job", async () => {
    const [job] = await add(1);
    const explained = await explain(job!.id);
    expect(explanationText({ ...explained, id: "the-id" }, clock.wall(), surface)).toMatchInlineSnapshot(`
      "id        the-id
      queue     work
      type      send
      state     waiting
      position  first
      held by   nothing: it starts when a worker asks
      earliest  now
      "
    `);
    expect(waitingLine(explained, clock.wall())).toBe("a worker");
  });

  it.each([
    [{ paused: true } as const, "mail: paused, until it is resumed"],
    [{ holdMs: 3_200, group: null }, "mail: held by the service, or by hand, until 12:00:04 (in 3.2 s)"],
    [{ remaining: 0, resetMs: 5_000, group: null }, "mail: used up, says the service, until 12:00:05 (in 5 s)"],
    [{ quota: { max: 0 }, group: null }, "mail: allows nothing"],
  ])("%j", async (change, line) => {
    await define({ mail: { max: 2, per: "1m", all: true } });
    const [job] = await add(1);
    await storage.limits.change("mail", change);
    expect(waitingLine(await explain(job!.id), clock.wall())).toBe(line);
  });

  it("the explanation of a queue shows the limit that takes the longest", async () => {
    await define({ mail: { max: 2, per: "1m", all: true }, pace: { every: "1s", types: ["send"] } });
    await add(7);
    await claim();
    const text = queueExplanationText(drain(await storage.backlog("work")), clock.wall(), surface);
    expect(text).toMatchInlineSnapshot(`
      "queue       work
      waiting     6
      scheduled   0
      active      1
      bottleneck  mail
      drained     about 12:02:30 (in 2 m 30 s)

      limit  waiting  elsewhere  binds       takes
      mail         6          0  window   2 m 30 s
      pace         6          0  spacing       6 s

      6 jobs wait. With enough workers the last starts in about 2m 30s; mail is the bottleneck.
      "
    `);
  });
});
