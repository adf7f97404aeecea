import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startPostgres } from "../../scripts/postgres-server.ts";
import { once } from "../storages/postgres/server.ts";

test("a server starts where only the user who starts it may enter the folder, and leaves nothing there", async () => {
  const parent = mkdtempSync(join(tmpdir(), "sluice closed "));
  onTestFinished(() => rmSync(parent, { recursive: true }));
  const folder = join(parent, "temporary files");
  mkdirSync(folder, { mode: 0o700 });
  const server = await startPostgres({ folder });
  try {
    expect(await once(server.url, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
  } finally {
    await server.stop();
  }
  expect(readdirSync(folder)).toEqual([]);
});
