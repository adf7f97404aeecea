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
  it("are compiled as they are, sorted by path", () => {
    const files = { "tables.sql": "tables\n", "jobs/b.sql": "b\n", "jobs/a.sql": "-- {schema}, $1, $&\n" };
    const found = compiled(files);
    expect(found).toEqual(files);
    expect(Object.keys(found)).toEqual(["jobs/a.sql", "jobs/b.sql", "tables.sql"]);
  });

  it("are put together of parts, which are no files of their own", () => {
    const found = compiled({
      "jobs/f.sql": "BEGIN\n  -- {part f/one}\n  IF x THEN\n    -- {part f/two}\n  END IF;\nEND\n",
      "jobs/f/one.part.sql": "-- One.\na := '$&';\n\nIF y THEN\n  -- {part f/two}\nEND IF;\n",
      "jobs/f/two.part.sql": "b := 2;\n",
    });
    expect(found).toEqual({
      "jobs/f.sql": `BEGIN
  -- One.
  a := '$&';

  IF y THEN
    b := 2;
  END IF;
  IF x THEN
    b := 2;
  END IF;
END
`,
    });
  });

  it("may have the line ends of Windows", () => {
    const files = { "jobs/f.sql": "BEGIN\r\n  -- {part one}\r\nEND\r\n", "jobs/one.part.sql": "a := 1;\r\n" };
    expect(compiled(files)).toEqual({ "jobs/f.sql": "BEGIN\n  a := 1;\nEND\n" });
  });

  it.each([
    [
      "a part that is missing",
      { "jobs/f.sql": "\n-- {part f/one}\n" },
      "jobs/f.sql:2: there is no jobs/f/one.part.sql",
    ],
    [
      "one that is missing in a part",
      { "jobs/f.sql": "-- {part one}\n", "jobs/one.part.sql": "-- {part two}\n" },
      "jobs/one.part.sql:1: there is no jobs/two.part.sql",
    ],
    [
      "a part that is not used",
      { "jobs/f.sql": "f\n", "jobs/f/one.part.sql": "a\n", "jobs/f/two.part.sql": "b\n" },
      "jobs/f/one.part.sql, jobs/f/two.part.sql: a part of no function",
    ],
    [
      "parts without end",
      { "jobs/f.sql": "-- {part one}\n", "jobs/one.part.sql": "-- {part one}\n" },
      "jobs/one.part.sql:1: jobs/one.part.sql is a part of itself",
    ],
    [
      "a part beside something else",
      { "jobs/f.sql": "a := 1; -- {part one}\n", "jobs/one.part.sql": "b\n" },
      "jobs/f.sql:1: a part has a line of its own",
    ],
  ])("complain of %s", (_, files, words) => {
    expect(() => compiled(files as unknown as Record<string, string>)).toThrow(words);
  });
});
