import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { timeOfDay } from "../../src/cli/render/time.ts";
import { readLimits } from "../../src/limits/define.ts";
import { Queue } from "../../src/queue/queue.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { copyOf, type Ended, folderFor, inProcess, sluice } from "./support.ts";

const folder = folderFor("limits");
const database = join(folder.path, "jobs.db");
afterAll(folder.remove);

const DEFINED = {
  mail: { max: 2, per: "1h", types: ["send"] },
  gpu: { concurrency: 1, types: ["infer"] },
  tokens: { max: 1_000, per: "1h", weight: "tokens", estimate: 100, types: ["chat"] },
  tenant: { max: 1, per: "1h", queues: ["work"], by: "group", overrides: { acme: { max: 50, share: 3 } } },
  crawl: { every: "1h", queues: ["crawl"], breaker: { failures: 3, open: "30s", kinds: ["TimeoutError"] } },
};

/** Two mails have started and one waits; one inference runs and one waits; one crawl has started. */
beforeAll(async () => {
  const storage = new SqliteStorage(database);
  await storage.limits.define(readLimits("test", DEFINED).rules);
  const work = new Queue("work", { storage });
  await work.addBulk([
    ...["acme", "acme", "acme"].map((group) => ({ type: "send", data: null, options: { group } })),
    ...["acme", "small", "small"].map((group) => ({ type: "infer", data: null, options: { group } })),
  ]);
  await new Queue("crawl", { storage }).add("page", null);
  const claim = { worker: "w", max: 10, types: null, leaseMs: 3_600_000, limits: [], settle: [] };
  await storage.claim({ ...claim, queue: "work" });
  await storage.claim({ ...claim, queue: "crawl" });
  await storage.close();
});

const at = (db: string, ...args: string[]) => inProcess(["limits", ...args, "--db", db]);
const look = (...args: string[]) => at(database, ...args);
const json = ({ out }: Ended) => JSON.parse(out) as Record<string, unknown>;
const own = (name: string) => copyOf(database, name);
interface Listed {
  readonly limits: readonly (Record<string, unknown> & { readonly name: string })[];
}

describe("sluice limits", () => {
  it("sluice limits lists all limits", async () => {
    const { code, out } = await look();
    expect(code).toBe(0);
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^limit +allows +for +used +held +waiting +state$/);
    expect(lines[1]).toMatch(/^crawl +every 1h +queue crawl +0 +full until \d/);
    expect(lines[2]).toMatch(/^gpu +1 at a time +infer +1\/1 +2 +full until one ends$/);
    expect(lines[3]).toMatch(/^mail +2 per 1h +send +2\/2 +1 +full until \d/);
    expect(lines[4]).toMatch(/^tenant +1 per 1h +queue work; each group +3 +open, 1 group in use$/);
    expect(lines[5]).toMatch(/^tokens +1,000 tokens per 1h +chat +0\/1,000 +0 +open$/);
    expect(lines).toHaveLength(6);
  });

  it("sluice limits shows and changes limits by keys, for the keys that are given", async () => {
    const db = own("keys");
    const storage = new SqliteStorage(db);
    const limits = { each: { max: 1, per: "1h", queues: ["keyed"], by: ["tenant", "model"] } };
    await storage.limits.define(readLimits("test", limits).rules);
    const queue = new Queue("keyed", { storage });
    await queue.add("t", null, { keys: { tenant: "acme", model: "large" } });
    const waiting = await queue.add("t", null, { keys: { model: "large", tenant: "acme" } });
    const claim = { worker: "w", max: 10, types: null, leaseMs: 3_600_000, limits: [], settle: [] };
    await storage.claim({ ...claim, queue: "keyed" });
    await storage.close();
    expect((await at(db)).out).toMatch(/^each +1 per 1h +queue keyed; each tenant and model +1 +1 of 1 value full$/m);
    const { out } = await at(db, "each");
    expect(out).toMatch(/^values +1 in use$/m);
    expect(out).toMatch(/^tenant and model +used +held +state\nacme,large +1\/1 +full until/m);
    const keys = ["--keys", "model=large", "--keys", "tenant=acme"];
    expect(json(await at(db, "each", ...keys, "--json"))).toMatchObject({ states: [{ group: "acme,large", used: 1 }] });
    expect((await at(db, "set", "each", "--max", "5", ...keys)).out).toBe("set each[acme,large]: 5 per 1h, open\n");
    expect((await at(db, "reset", "each", ...keys)).out).toBe("reset each[acme,large]: 5 per 1h, open\n");
    expect((await at(db, "pause", "each", "--for", "10m", ...keys)).out).toMatch(
      /^paused for 10 m: each\[acme,large\]: /,
    );
    expect((await inProcess(["explain", waiting.id, "--db", db])).out).toContain("each[acme,large]");
    expect((await inProcess(["explain", "--queue", "keyed", "--db", db])).out).toContain("each is by tenant, model");
    for (const [args, message] of [
      [["each", "--group", "g"], /is by tenant, model/],
      [["each", "--keys", "user=ada"], /keys\.user.*is by tenant, model/],
      [["mail", "--keys", "tenant=acme"], /mail is not by group or keys/],
      [["--keys", "tenant=acme"], /of which limit/],
      [["pause", "each", ...keys], /--keys needs --for/],
    ] as const) {
      const ended = await at(db, ...args);
      expect(ended.code).not.toBe(0);
      expect(ended.err).toMatch(message);
    }
  });

  it("sluice limits works in a process of its own", async () => {
    expect(await sluice(["limits", "mail", "--db", database])).toEqual(await look("mail"));
  });

  it("sluice limits fits into a terminal", async () => {
    const { out } = await inProcess(["limits", "--db", database], { columns: () => 80 });
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("sluice limits --json answers in JSON", async () => {
    const { limits } = json(await look("--json")) as unknown as Listed;
    expect(limits.map(({ name }) => name)).toEqual(["crawl", "gpu", "mail", "tenant", "tokens"]);
    expect(limits[2]).toMatchObject({
      allows: "2 per 1h",
      waiting: 1,
      paused: false,
      changed: false,
      revision: 1,
      version: null,
      owners: [],
      states: [{ group: null, used: 2, max: 2, held: 0, concurrency: null, free: 0, reason: "window" }],
      rule: { name: "mail", types: ["send"] },
    });
  });

  it("sluice limits shows one limit with its groups", async () => {
    const { out } = await look("tenant");
    expect(out).toMatch(/^overrides +acme: 50 per 1h, 3 in a turn$/m);
    expect(out).toMatch(/^groups +1 in use$/m);
    expect(out).toMatch(/^acme +3\/50 +open$/m);
    const small = await look("tenant", "--group", "small", "--json");
    expect(json(small)).toMatchObject({ states: [{ group: "small", used: 0, max: 1 }] });
  });

  it("sluice limits shows weights and breakers", async () => {
    expect((await look("tokens")).out).toMatch(/^weight +tokens, 100 if a job says nothing$/m);
    expect((await look("crawl")).out).toMatch(
      /^breaker +opens for 30s after 3 failures in a row \(TimeoutError\), then 1 probe at a time$/m,
    );
  });

  it("sluice limits says so where there are no limits", async () => {
    const empty = own("empty");
    for (const name of Object.keys(DEFINED)) await at(empty, "remove", name, "--yes");
    expect(await at(empty)).toMatchObject({ code: 0, out: "There are no limits: none is declared.\n" });
    expect(json(await at(empty, "--json"))).toEqual({ limits: [] });
  });
});

describe("sluice limits set, restore", () => {
  it("sluice limits set changes numbers until they are restored", async () => {
    const db = own("set");
    expect(await at(db, "set", "mail", "--max", "5")).toMatchObject({ code: 0, out: "set mail: 5 per 1h, open\n" });
    const { out } = await at(db);
    expect(out).toMatch(/^mail +5 per 1h\* /m);
    expect(out).toMatch(/^\* changed by hand$/m);
    expect((await at(db, "mail")).out).toMatch(/^declared +2 per 1h \(changed by hand\)$/m);
    expect(json(await at(db, "mail", "--json"))).toMatchObject({ changed: true, declared: { quota: { max: 2 } } });
    expect((await at(db, "restore", "mail")).out).toMatch(/^restored mail: 2 per 1h, full until/);
    expect(json(await at(db, "mail", "--json"))).toMatchObject({ changed: false });
  });

  it("sluice limits set changes the numbers of one group alone", async () => {
    const db = own("set-group");
    expect((await at(db, "set", "tenant", "--max", "9", "--per", "1m", "--group", "small")).out).toBe(
      "set tenant[small]: 9 per 1m, open\n",
    );
    expect((await at(db, "tenant")).out).toMatch(/acme: 50 per 1h, 3 in a turn\n +small: 9 per 1m/);
  });

  it("sluice limits set changes numbers of every kind", async () => {
    const db = own("set-kinds");
    expect((await at(db, "set", "gpu", "--concurrency", "0")).out).toBe("set gpu: 0 at a time, closed: allows none\n");
    expect((await at(db, "set", "crawl", "--every", "2s")).out).toMatch(/^set crawl: every 2s/);
  });
});

describe("sluice limits pause, resume, reset", () => {
  it("sluice limits pauses and resumes a limit", async () => {
    const db = own("pause");
    expect(await at(db, "pause", "tokens")).toMatchObject({
      code: 0,
      out: "paused tokens: 1,000 tokens per 1h, paused\n",
    });
    expect(json(await at(db, "tokens", "--json"))).toMatchObject({ paused: true, state: "paused" });
    expect((await at(db, "resume", "tokens")).out).toBe("resumed tokens: 1,000 tokens per 1h, open\n");
  });

  it("sluice limits pauses for a while, also one group", async () => {
    const db = own("pause-for");
    expect((await at(db, "pause", "tokens", "--for", "10m")).out).toMatch(
      /^paused for 10 m: tokens: 1,000 tokens per 1h, held until \d/,
    );
    expect((await at(db, "pause", "tenant", "--for", "10m", "--group", "small", "--json")).code).toBe(0);
    const { states } = json(await at(db, "tenant", "--group", "small", "--json")) as {
      states: { heldForMs: number }[];
    };
    expect(states[0]!.heldForMs).toBeGreaterThan(590_000);
    expect((await at(db, "tenant")).out).toMatch(/^small +0\/1 +held until \d/m);
  });

  it("sluice limits pauses all groups for a while, also unused ones", async () => {
    const db = own("pause-all");
    expect((await at(db, "pause", "tenant", "--for", "10m")).out).toMatch(
      /^paused for 10 m: tenant: 1 per 1h, all groups held until \d/,
    );
    expect((await at(db, "tenant", "--group", "new")).out).toMatch(/^state +held until \d/m);
    expect((await at(db)).out).toMatch(/^tenant .* all groups held until \d/m);
    expect((await at(db, "resume", "tenant")).out).toMatch(/^resumed tenant: 1 per 1h, open/);
  });

  it("sluice limits resets what was counted, of all groups or of one", async () => {
    const db = own("reset");
    expect((await at(db, "reset", "mail")).out).toBe("reset mail: 2 per 1h, open\n");
    expect(json(await at(db, "reset", "tenant", "--group", "acme", "--json"))).toMatchObject({ states: [{ used: 0 }] });
  });
});

describe("sluice limits define, remove", () => {
  const file = join(folder.path, "limits.json");
  const define = (limits: unknown) => writeFileSync(file, JSON.stringify(limits));

  it("sluice limits declares what a file says", async () => {
    const db = own("define");
    define({ ...DEFINED, fresh: { concurrency: 3, all: true } });
    expect(await at(db, "define", file)).toMatchObject({
      code: 0,
      out: "defined 6 limits: mail, gpu, tokens, tenant, crawl, fresh\n",
    });
    define({ mail: { max: 9, per: "1h", types: ["send"] } });
    const rejected = await at(db, "define", file, "--on-conflict", "reject");
    expect(rejected).toMatchObject({ code: 1, out: "" });
    expect(rejected.err).toMatch(/the limit "mail".* was declared differently before/);
    expect((await at(db, "define", file, "--on-conflict", "keep")).code).toBe(0);
    expect(json(await at(db, "mail", "--json"))).toMatchObject({ allows: "2 per 1h" });
    const { code, out } = await at(db, "define", file);
    expect(code).toBe(0);
    expect(out).toMatch(/^defined 1 limit: mail\nthe limit "mail" was declared \(max 2 -> 9\), by cli/);
    expect(json(await at(db, "mail", "--json"))).toMatchObject({ allows: "9 per 1h", revision: 2 });
  });

  it("sluice limits removes a limit only with --yes", async () => {
    const db = own("remove");
    const asked = await at(db, "remove", "mail");
    expect(asked).toMatchObject({ code: 1, out: "" });
    expect(asked.err).toMatch(/removes the limit mail, and 1 job would no longer wait for it: say --yes/);
    expect(await at(db, "remove", "mail", "--yes")).toMatchObject({ code: 0, out: "removed mail\n" });
    expect((await at(db, "mail")).err).toMatch(/there is no limit mail; limits: crawl, gpu, tenant, tokens/);
  });

  it("sluice limits declares by version and owner", async () => {
    const db = own("versions");
    define({ a: { every: "1s", all: true }, b: { every: "2s", all: true } });
    expect((await at(db, "define", file, "--version", "5", "--owner", "billing")).code).toBe(0);
    expect(json(await at(db, "a", "--json"))).toMatchObject({ version: 5, owners: ["billing"] });
    expect((await at(db, "a")).out).toMatch(/^version +5\nowner +billing\nrevision +1$/m);
    define({ a: { every: "9s", all: true } });
    const older = await at(db, "define", file, "--version", "4", "--owner", "billing");
    expect(older.out).toMatch(/the limit "a" stays as version 5 declared it; .* is version 4 \(every 1s -> 9s\)/);
    expect(json(await at(db, "define", file, "--version", "6", "--owner", "billing", "--json"))).toMatchObject({
      defined: ["a"],
      changes: [
        { limit: "a", kind: "declared" },
        { limit: "b", kind: "removed" },
      ],
      kept: [],
    });
    expect((await at(db, "b")).code).toBe(1);
  });

  it("sluice limits keeps a history, of limits that were removed too", async () => {
    const db = own("history");
    await at(db, "set", "mail", "--max", "9");
    await at(db, "pause", "mail");
    await at(db, "remove", "mail", "--yes");
    const { out } = await at(db, "mail", "--history");
    const lines = out.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^at +change +by$/);
    expect(lines[1]).toMatch(/^\d{4}-\S+Z +removed +cli/);
    expect(lines[2]).toMatch(/ paused +cli/);
    expect(lines[3]).toMatch(/ changed \(max 2 -> 9\) +cli/);
    expect(lines[4]).toMatch(/ declared \(max 2, per 1h, types \["send"\]\)/);
    expect(lines).toHaveLength(5);
    const { history } = json(await at(db, "mail", "--history", "--json")) as { history: Record<string, unknown>[] };
    expect(history[2]).toMatchObject({
      limit: "mail",
      kind: "changed",
      by: expect.stringMatching(/^cli/),
      from: { quota: { max: 2 } },
      to: { quota: { max: 9 } },
    });
    expect((await at(db, "--history")).out.split("\n")[0]).toMatch(/^at +limit +change +by$/);
    expect(await at(db, "none", "--history")).toMatchObject({ code: 1 });
    expect(await at(db, "pause", "gpu", "--history")).toMatchObject({ code: 2 });
  });

  it("sluice limits refuses the whole file where one limit is wrong", async () => {
    const db = own("wrong");
    define({ fresh: { max: 1, per: "1s", all: true }, wrong: { max: 1, all: true } });
    const ended = await at(db, "define", file);
    expect(ended).toMatchObject({ code: 2, out: "" });
    expect(ended.err).toMatch(/limits\.wrong: expected `per`/);
    expect((await at(db, "fresh")).code).toBe(1);
  });
});

describe("sluice limits, misused", () => {
  it.each([
    [["mial"], 1, /there is no limit mial; did you mean mail\?/],
    [["set"], 2, /which limit\? sluice limits set <name>/],
    [["set", "mail"], 2, /set what\? Say --max/],
    [["set", "mail", "gpu", "--max", "1"], 2, /one limit at a time/],
    [["set", "mail", "--max", "-1"], 2, /--max needs a value/],
    [["set", "mail", "--max", "1.5"], 2, /--max to be an integer/],
    [["set", "mail", "--group", "a", "--max", "1"], 2, /mail is not by group/],
    [["set", "gpu", "--max", "5"], 2, /`per` to be given too/],
    [["set", "tokens", "--max", "50"], 2, /expected `max` to be 0, or/],
    [["set", "nothing", "--max", "5"], 1, /there is no limit nothing/],
    [["pause", "tenant", "--group", "a"], 2, /--group needs --for/],
    [["pause", "mail", "--max", "5"], 2, /--max means nothing for `limits pause`/],
    [["restore", "tenant", "--group", "a"], 2, /--group means nothing/],
    [["resume"], 2, /which limit/],
    [["define"], 2, /which file/],
    [["define", "none.json"], 1, /cannot read none.json/],
    [["define", "package.json", "--on-conflict", "mix"], 2, /expected/],
    [["define", "package.json", "--version", "x"], 2, /expected/],
    [["--version", "3"], 2, /--version says what to change/],
    [["tenant", "--history", "--group", "acme"], 2, /--group means nothing/],
    [["mail", "gpu"], 2, /there is no action "mail"; actions: show, set/],
    [["mail", "--max", "5"], 2, /--max says what to change/],
    [["mail", "--group", "a"], 2, /mail is not by group/],
    [["--group", "a"], 2, /of which limit/],
    [["remove", "tokens"], 1, /this removes the limit tokens: say --yes/],
    [["set", "tokens", "--max", "token=5"], 2, /got "token=5"/],
    [["define", "db://me:hush@host/limits"], 1, /cannot read \(an address, not shown here\)/],
  ])("%j", async (args, code, message) => {
    const ended = await look(...args);
    expect(ended).toMatchObject({ code, out: "" });
    expect(ended.err).toMatch(message);
  });

  it("sluice limits can show a limit that is called like an action", async () => {
    const db = own("names");
    const file = join(folder.path, "names.json");
    writeFileSync(file, JSON.stringify({ set: { concurrency: 1, all: true } }));
    await at(db, "define", file);
    expect((await at(db, "show", "set")).out).toMatch(/^limit +set$/m);
    expect((await at(db, "set", "set", "--concurrency", "2")).out).toMatch(/^set set: 2 at a time/);
  });
});

describe("the time of day", () => {
  it("the time of day is the user's own, rounded up to seconds, with the date if that is another", () => {
    const noon = new Date(2030, 0, 2, 12, 0, 3).getTime();
    expect(timeOfDay(noon, noon - 5_000)).toBe("12:00:03");
    expect(timeOfDay(noon - 999, noon - 5_000)).toBe("12:00:03");
    expect(timeOfDay(noon, noon - 86_400_000)).toBe("2030-01-02 12:00:03");
    expect(timeOfDay(1e20, 0)).toBe("100000000000000000000");
  });
});
