import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readLimits } from "../../src/limits/define.ts";
import { Queue } from "../../src/queue/queue.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { liveWorker } from "../live-worker.ts";
import { copyOf, type Ended, folderFor, inProcess, sluice } from "./support.ts";

const folder = folderFor("explain");
const database = join(folder.path, "jobs.db");
afterAll(folder.remove);

const ids: Record<string, string> = {};

/** Under "2 in an hour": two have started, three wait. Beside them one that is due tomorrow, and one that is free. */
beforeAll(async () => {
  const storage = new SqliteStorage(database);
  const limits = {
    mail: { max: 2, per: "1h", types: ["send"] },
    gpu: { concurrency: 1, types: ["infer"] },
    tokens: { max: 1_000, per: "1h", weight: "tokens", types: ["chat"] },
  };
  await storage.limits.define(readLimits("test", limits).rules);
  const queue = new Queue("work", { storage });
  const sent = await queue.addBulk(Array.from({ length: 5 }, () => ({ type: "send", data: null })));
  const inferred = await queue.addBulk(Array.from({ length: 2 }, () => ({ type: "infer", data: null })));
  const chats = await queue.addBulk(
    [900, 200].map((tokens) => ({ type: "chat", data: null, options: { weights: { tokens } } })),
  );
  const claim = { queue: "work", worker: "w", max: 10, types: null, leaseMs: 3_600_000, limits: [], settle: [] };
  const { jobs } = await storage.claim(claim);
  expect(jobs).toHaveLength(4);
  const later = await queue.add("free", null, { delay: "1d" });
  const free = await queue.add("free", null, { group: "alone" });
  const stopped = await queue.add("stopped", null);
  await queue.pause("stopped");
  await new Queue("other", { storage }).add("ping", null);
  Object.assign(ids, {
    running: sent[0]!.id,
    next: sent[2]!.id,
    last: sent[4]!.id,
    infer: inferred[1]!.id,
    chat: chats[1]!.id,
    later: later.id,
    free: free.id,
    stopped: stopped.id,
  });
  await liveWorker(storage, "work");
  await storage.close();
});

const look = (...args: string[]) => inProcess([...args, "--db", database]);
const explain = (name: string, ...args: string[]) => look("explain", ids[name]!, ...args);
const json = ({ out }: Ended) => JSON.parse(out) as Record<string, unknown>;

describe("sluice explain <id>", () => {
  it("sluice explain <id> says which limit is full, how full, and until when", async () => {
    const { code, out } = await explain("next");
    expect(code).toBe(0);
    expect(out).toMatch(/^state +waiting$/m);
    expect(out).toMatch(/^position +behind 1 job of other groups by turns$/m);
    expect(out).toMatch(
      /^held by +mail: 2\/2 used, until (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \(in (59 m( \d+ s)?|1 h)\)$/m,
    );
    expect(out).toMatch(/^earliest +(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \(in (59 m( \d+ s)?|1 h)\)$/m);
  });

  it("sluice explain <id> says which jobs are before it", async () => {
    expect((await explain("last")).out).toMatch(
      /^position +behind 2 jobs of its group and 1 job of other groups by turns$/m,
    );
  });

  it.each([
    ["infer", /^held by +gpu: 1\/1 at a time, until one ends$/m, /^earliest +cannot be estimated$/m],
    ["chat", /^held by +tokens: 900\/1,000 used, and it needs 200, until /m, /^earliest +.*\(in /m],
    ["later", /^held by +its delay, until .*\(in (23 h 59 m|1 d)\)$/m, /^state +scheduled$/m],
    ["free", /^held by +nothing: it starts when a worker asks$/m, /^earliest +now$/m],
    ["stopped", /^held by +Jobs of type "stopped" are paused\.$/m, /^earliest +cannot be estimated$/m],
    ["running", /^held by +It is running since /m, /^state +active$/m],
  ])("%s", async (name, holds, also) => {
    const { code, out } = await explain(name);
    expect(code).toBe(0);
    expect(out).toMatch(holds);
    expect(out).toMatch(also);
  });

  it("sluice explain --json answers in JSON", async () => {
    expect(json(await explain("next", "--json"))).toMatchObject({
      id: ids["next"],
      queue: "work",
      state: "waiting",
      runnable: false,
      position: { higher: 0, group: 0, turns: 1 },
      blockers: [
        { kind: "limit", limit: "mail", used: 2, max: 2, reason: "window", until: expect.stringMatching(/Z$/) },
        { kind: "order" },
      ],
      earliest: expect.stringMatching(/Z$/),
    });
    expect(json(await explain("free", "--json"))).toMatchObject({ runnable: true, blockers: [] });
  });

  it("sluice explain <id> works in a process of its own", async () => {
    expect(await sluice(["explain", ids["infer"]!, "--db", database])).toEqual(await explain("infer"));
  });

  it("sluice explain <id> fails where there is no such job, or too many arguments are given", async () => {
    expect(await look("explain", "nope")).toMatchObject({ code: 1, out: "", err: 'error there is no job "nope"\n' });
    expect((await explain("next", "--queue", "work")).err).toMatch(/or --queue, not both/);
  });
});

describe("sluice explain --queue", () => {
  it("sluice explain --queue shows the waiting jobs of a queue and the limit that takes the longest", async () => {
    const { code, out } = await look("explain", "--queue", "work");
    expect(code).toBe(0);
    expect(out).toMatch(/^waiting +7$/m);
    expect(out).toMatch(/^scheduled +1$/m);
    expect(out).toMatch(/^active +4$/m);
    expect(out).toMatch(/^limit +waiting +elsewhere +binds +takes$/m);
    expect(out).toMatch(/^mail +3 +0 +window +1 h 30 m$/m);
    expect(out).toMatch(/^gpu +1 +0 +concurrency +\?$/m);
  });

  it("sluice explain --queue estimates when a queue drains, once there is enough data", async () => {
    const db = copyOf(database, "drain");
    await inProcess(["resume", "--queue", "work", "--type", "stopped", "--db", db]);
    await inProcess(["cancel", ids["infer"]!, "--db", db]);
    const { out } = await inProcess(["explain", "--queue", "work", "--db", db]);
    expect(out).toMatch(/^bottleneck +mail$/m);
    expect(out).toMatch(/^drained +about .*\(in 1 h (29|30) m\)$/m);
    const answer = json(await inProcess(["explain", "--queue", "work", "--db", db, "--json"]));
    expect(answer).toMatchObject({ bottleneck: "mail", drainsInMs: 5_400_000, waiting: 6 });
  });

  it("sluice explain asks which queue where there are several, and says when nothing waits", async () => {
    expect((await look("explain")).err).toMatch(/which queue\?/);
    expect((await look("explain", "-q", "wrok")).err).toMatch(/did you mean work\?/);
    const db = copyOf(database, "idle");
    await inProcess(["purge", "--queue", "other", "--state", "waiting", "--db", db]);
    await inProcess(["pause", "--queue", "other", "--db", db]);
    expect((await inProcess(["explain", "--queue", "other", "--db", db])).out).toMatch(/^Nothing waits\.$/m);
  });
});

describe("sluice show", () => {
  it("sluice show says in a line what a job waits for", async () => {
    expect((await look("show", ids["next"]!)).out).toMatch(/^waits for +mail: 2\/2 used, until /m);
    expect((await look("show", ids["free"]!)).out).toMatch(/^waits for +a worker$/m);
    expect((await look("show", ids["running"]!)).out).not.toMatch(/^waits for/m);
    expect(json(await look("show", ids["next"]!, "--json"))["waitsFor"]).toMatch(/^mail: 2\/2 used/);
  });
});
