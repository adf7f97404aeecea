import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { sqlFiles } from "../../scripts/compile-sql.ts";

const folders: string[] = [];

/** What becomes of a folder with these files, by their paths. */
function compiled(files: Record<string, string>): Record<string, string> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-sql-"));
  folders.push(folder);
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, file)), { recursive: true });
    writeFileSync(join(folder, file), text);
  }
  return Object.fromEntries(sqlFiles(folder).map(({ path, text }) => [path, text]));
}

afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
});

describe("the SQL files", () => {
  it("SQL files are compiled as they are, sorted by path", () => {
    const files = { "tables.sql": "tables\n", "jobs/b.sql": "b\n", "jobs/a.sql": "-- {schema}, $1, $&\n" };
    const found = compiled(files);
    expect(found).toEqual(files);
    expect(Object.keys(found)).toEqual(["jobs/a.sql", "jobs/b.sql", "tables.sql"]);
  });

  it("SQL files may have the line ends of Windows", () => {
    expect(compiled({ "jobs/f.sql": "BEGIN\r\nEND\r\n" })).toEqual({ "jobs/f.sql": "BEGIN\nEND\n" });
  });
});
