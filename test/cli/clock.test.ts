import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { PostgresStorage } from "../../src/storages/postgres/storage.ts";
import { once, temporaryDatabase } from "../storages/postgres/server.ts";
import { fill, folderFor, inProcess, tamper } from "./support.ts";

const DAY_MS = 86_400_000;

/** What a storage looks like whose clock was two days ahead and is right again. */
const ahead = (table: string) => `UPDATE ${table} SET last = last + ${2 * DAY_MS}, skew = ${2 * DAY_MS}`;

const folder = folderFor("clock");
afterAll(folder.remove);

interface Shown {
  readonly offsetMs: number;
  readonly repairedMs?: number;
}

describe.each([
  [
    "a file",
    async () => {
      const path = join(folder.path, "jobs.db");
      await fill(path);
      tamper(path, ahead("sluice_meta"));
      return path;
    },
  ],
  [
    "a server",
    async () => {
      const url = await temporaryDatabase();
      const storage = new PostgresStorage(url);
      await storage.setup();
      await storage.close();
      await once(url, ahead("sluice.meta"));
      return url;
    },
  ],
])("sluice clock, of %s", (_, make) => {
  it("sluice clock shows the offset, doctor names it, and --repair takes it back", async () => {
    const db = await make();
    const shown = async () => {
      const { code, out } = await inProcess(["clock", "--db", db, "--json"]);
      expect(code).toBe(0);
      return JSON.parse(out) as Shown;
    };
    expect((await shown()).offsetMs).toBeCloseTo(2 * DAY_MS, -3);
    expect((await inProcess(["clock", "--db", db])).out).toMatch(
      /Z, the storage is 2 d ahead of the wall clock\n`sluice clock --repair` takes that back\n$/,
    );
    expect((await inProcess(["doctor", "--db", db])).out).toMatch(
      /^warn +clock +the storage is 2 d ahead of the wall clock/m,
    );

    const asked = await inProcess(["clock", "--repair", "--db", db], { interactive: true });
    expect(asked).toMatchObject({ code: 1, err: expect.stringMatching(/2 d ahead.*say --yes/s) });
    expect((await shown()).offsetMs).toBeCloseTo(2 * DAY_MS, -3);

    const repaired = await inProcess(["clock", "--repair", "--yes", "--db", db], { interactive: true });
    expect(repaired).toMatchObject({
      code: 0,
      out: "repaired: the storage is 2 d ahead of the wall clock before, the storage goes by the wall clock now\n",
    });
    expect(Math.abs((await shown()).offsetMs)).toBeLessThan(1);
    expect((await inProcess(["doctor", "--db", db])).out).toMatch(/^ok +clock/m);
    expect((await inProcess(["clock", "--repair", "--db", db])).out).toBe("nothing to repair\n");
  });
});
