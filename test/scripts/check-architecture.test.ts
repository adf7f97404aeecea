import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { checkArchitecture, ROOMS } from "../../scripts/check-architecture.ts";
import { house } from "./house.ts";

describe("the check of the architecture", () => {
  it("the check lets rooms import what the table allows", () => {
    const src = house({
      "core/a.ts": "export const a = 1; // Date.now() in a comment is fine",
      "limits/b.ts": 'import { a } from "../core/a.ts";\nexport const b = a;',
      "index.ts": 'export * from "./core/a.ts";',
    });
    expect(checkArchitecture(src)).toMatch(/^3 files/);
  });

  it.each([
    [
      "a room it may not enter",
      { "core/a.ts": 'import "../limits/b.ts";', "limits/b.ts": "" },
      /core may import nothing/,
    ],
    [
      "also for types",
      { "limits/a.ts": 'import type { B } from "../limiter/b.ts";', "limiter/b.ts": "" },
      /limits may import core/,
    ],
    [
      "also over many lines",
      { "limits/a.ts": 'import {\n  type B,\n  c,\n} from "../limiter/b.ts";', "limiter/b.ts": "" },
      /limits may import/,
    ],
    [
      "also when exporting",
      { "core/a.ts": 'export { b } from "../limits/b.ts";', "limits/b.ts": "" },
      /core may import nothing/,
    ],
    [
      "also when importing late",
      { "core/a.ts": 'export const b = () => import("../limits/b.ts");', "limits/b.ts": "" },
      /core may import/,
    ],
    ["a dependency", { "core/a.ts": 'import x from "left-pad";' }, /no dependencies/],
    ["a Node module", { "limiter/a.ts": 'import { readFile } from "node:fs";' }, /node:fs/],
    ["a room that is in no table", { "utils/a.ts": 'import "../core/b.ts";', "core/b.ts": "" }, /in no room/],
    [
      "a cycle",
      { "core/a.ts": 'import "./b.ts";', "core/b.ts": 'import type { A } from "./a.ts";' },
      /cycle: core\/a.ts -> core\/b.ts -> core\/a.ts/,
    ],
    ["the clock", { "limits/a.ts": "export const now = Date.now();" }, /uses the clock \(Date.now\)/],
    ["a timer", { "limiter/a.ts": "setTimeout(() => {}, 1);" }, /setTimeout/],
    ["the date of today", { "core/a.ts": "export const now = new Date();" }, /the clock/],
    ["chance", { "limiter/a.ts": "export const n = Math.random();" }, /core\/random.ts alone/],
  ])("refuses %s", (_, files, expected) => {
    expect(() => checkArchitecture(house(files as Record<string, string>))).toThrow(expected);
  });

  it("the check has the same table as ARCHITECTURE.md", () => {
    const page = readFileSync("ARCHITECTURE.md", "utf8");
    for (const [room, imports] of Object.entries(ROOMS)) {
      const name = room === "." ? "index.ts" : `${room}/`;
      const lines = page.split("\n");
      const row = lines.findIndex((line) => line.startsWith(`${name} `));
      expect(row, `a row for ${name}`).toBeGreaterThan(0);
      expect(lines[row + 1]?.trim()).toBe(`→ ${imports.join(", ") || "nothing"}`);
    }
  });
});
