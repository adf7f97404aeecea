import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readLimits } from "../../src/limits/define.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { type Ended, folderFor, inProcess, sluice } from "./support.ts";

const folder = folderFor("simulate");
afterAll(folder.remove);

const mail = { mail: { max: 60, per: "1m", types: ["send"] } };

describe("sluice simulate", () => {
  const json = ({ out }: Ended) => JSON.parse(out) as Record<string, unknown>;
  const given = "--type send --jobs 600 --duration 200ms --concurrency 200";
  const args = ["simulate", "--limit", "mail: 60 per 1m, types send", ...given.split(" ")];

  it("sluice simulate shows the result at a terminal", async () => {
    const { code, out, err } = await inProcess(args, { columns: () => 60 });
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toMatchSnapshot();
    for (const line of out.split("\n")) expect(line.length).toBeLessThanOrEqual(60);
  });

  it("sluice simulate works in a process of its own", async () => {
    expect(await sluice(args, { COLUMNS: "60" })).toEqual(await inProcess(args, { columns: () => 60 }));
  });

  it("sluice simulate shows the result with plain characters", async () => {
    const { out } = await inProcess([...args, "--ascii"], { columns: () => 60 });
    expect(out).toMatch(/^[\x20-\x7e\n]*$/);
    expect(out).toContain("|#");
  });

  it("sluice simulate --json answers in JSON", async () => {
    const answer = json(await inProcess([...args, "--json"]));
    expect(answer).toMatchObject({
      ended: "done",
      tookMs: 540_200,
      bottleneck: "mail",
      text: "mail held 100 % of the waiting; with 2x of it it would still be the first (waiting, longest: 4 m instead of 9 m).",
      limits: [{ name: "mail", allows: "60 per 1m", use: 1, share: 1 }, { name: "workers" }],
      doubled: { bottleneck: "mail", tookMs: 240_200 },
    });
  });

  it("sluice simulate reads a plan from a file, with options of the command line", async () => {
    const file = join(folder.path, "plan.json");
    writeFileSync(file, JSON.stringify({ limits: mail, work: [{ type: "send", jobs: 120 }], concurrency: 200 }));
    expect(json(await inProcess(["simulate", file, "--json"]))).toMatchObject({ tookMs: 60_100 });
    const wider = ["simulate", file, "--limit", "mail: 120 per 1m, types send", "--json"];
    expect(json(await inProcess(wider))).toMatchObject({ tookMs: 100, bottleneck: null });
    const limits = join(folder.path, "limits.json");
    writeFileSync(limits, JSON.stringify({ mail: { max: 40, per: "1m", types: ["send"] } }));
    expect(json(await inProcess(["simulate", file, "--limits", limits, "--json"]))).toMatchObject({ tookMs: 120_100 });
  });

  it("sluice simulate reads the limits in force from a database, and does not change them", async () => {
    const db = join(folder.path, "limits.db");
    const storage = new SqliteStorage(db);
    await storage.limits.define(readLimits("test", mail).rules);
    await storage.limits.change("mail", { quota: { max: 40 }, group: null });
    await storage.limits.define(readLimits("test", { tenant: { max: 500, per: "1m", by: "group" } }).rules);
    await storage.limits.change("tenant", { holdMs: 86_400_000, group: null });
    const line = "simulate --type send --jobs 120 --concurrency 200 --json --db".split(" ");
    expect(json(await inProcess([...line, db]))).toMatchObject({ tookMs: 120_100 });
    const wider = await inProcess([...line, db, "--limit", "mail: 60 per 1m"]);
    expect(json(wider)).toMatchObject({
      tookMs: 60_100,
      limits: [{ name: "tenant" }, { name: "mail" }, { name: "workers" }],
    });
    expect(await storage.limits.read({ name: "mail", group: null })).toMatchObject([{ states: [{ used: 0 }] }]);
    await storage.close();
  });

  it("sluice simulate says so when there would be too many jobs", async () => {
    const { out } = await inProcess(["simulate", "--jobs", "50", "--max-jobs", "20"]);
    expect(out).toContain("No jobs were added after the first 20: --max-jobs would allow more.");
  });

  it("sluice simulate refuses invalid options", async () => {
    const bad = join(folder.path, "bad.json");
    writeFileSync(bad, "{ work");
    const empty = join(folder.path, "array.json");
    writeFileSync(empty, "[]");
    const good = join(folder.path, "plan.json");
    const cases: [string[], number, RegExp][] = [
      [["simulate", bad], 2, /bad.json is not JSON/],
      [["simulate", empty], 2, /holds no plan/],
      [["simulate", join(folder.path, "none.json")], 1, /cannot read .*none.json/],
      [["simulate", good, "--jobs", "5"], 2, /--jobs: the plan says which jobs there are/],
      [["simulate", "--jobs", "5", "--limits", empty], 2, /array.json holds no limits/],
      [["simulate", "--jobs", "5", "--limit", "a: 5 per 1s, estimate 3"], 2, /`estimate`/],
      [["simulate", "--jobs", "5", "--rat", "5/s"], 2, /did you mean --rate/],
      [["simulate", "--jobs", "5", "--used", "tokens=-1"], 2, /tokens=-1/],
      [["simulate", "--jobs", "5", "--limit", "t: 9 w per 1s", "--weight", "w=10"], 2, /weights\.w.*at most 9/],
    ];
    for (const [line, code, message] of cases) {
      const ended = await inProcess(line);
      expect(ended).toMatchObject({ code, out: "" });
      expect(ended.err).toMatch(message);
    }
  });

  const shown = readFileSync("docs/simulate.md", "utf8").match(/^sluice simulate .*$/gm) ?? [];

  it("sluice simulate is documented", () => {
    expect(shown.length).toBeGreaterThanOrEqual(4);
  });

  it.each(shown)("%s", async (text) => {
    const words = Array.from(text.matchAll(/"([^"]*)"|(\S+)/g), ([, inQuotes, plain]) => inQuotes ?? plain!);
    expect(await inProcess([...words.slice(1), "--json"])).toMatchObject({ code: 0, err: "" });
  });
});
