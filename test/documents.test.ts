import { execFile } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";
import { temporaryDatabase } from "./storages/postgres/server.ts";

/*
 * What the documents show is run as a reader would run it: by Node, against the built package. Blocks marked
 * ```ts are programs of their own; ```ts fragment ones are not run. Those that want a Postgres server find an empty database in
 * DATABASE_URL.
 */
const folder = join(".tmp", `documents-${process.pid}`);
mkdirSync(folder, { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const documents = ["README.md", ...list("docs", ".md").filter((file) => !file.includes("decisions"))];
const examples = ["promises", "limiters", "queue", "limits", "postgres"].flatMap((group) =>
  list(join("examples", group), ".ts"),
);

describe.each(documents)("%s", (document) => {
  const blocks = [...readFileSync(document, "utf8").matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ""]) => code);

  it("shows code", () => {
    expect(blocks.length).toBeGreaterThan(0);
  });

  it.each(blocks.map((code, i) => [i + 1, code] as const))("block %i runs", async (i, code) => {
    const file = join(folder, `${document.replaceAll(/\W/g, "-")}-${i}.ts`);
    writeFileSync(file, code);
    // In a folder of its own: some of them write files.
    await run(resolve(file), folder);
  });
});

describe("examples", () => {
  it.each(examples)("%s runs, and what it claims is so", async (file) => {
    await run(resolve(file));
  });
});

describe("links", () => {
  const pages = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "chaos/README.md",
    ...documents,
    ...list("docs/decisions", ".md"),
  ];

  it.each(pages)("%s links to files that exist", (page) => {
    const links = [...readFileSync(page, "utf8").matchAll(/\]\((?!https?:|#)([^)#]+)/g)].map(([, link]) => link!);
    expect(links.filter((link) => !existsSync(join(dirname(page), link)))).toEqual([]);
  });

  it("chaos/README.md names test files that exist", () => {
    const rows = readFileSync("chaos/README.md", "utf8").match(/^\| T\d.*$/gm)!;
    const names = rows.flatMap((row) => [...row.matchAll(/`([a-z][a-z\d/-]*)`/g)].map(([, name]) => name!));
    const places = (name: string) => [
      `test/${name}`,
      `test/${name}.test.ts`,
      ...(name.includes("/") ? [] : [`test/storages/postgres/${name}.test.ts`]),
    ];
    expect(names.length).toBeGreaterThan(0);
    expect(names.filter((name) => !places(name).some((place) => existsSync(place)))).toEqual([]);
  });
});

async function run(file: string, cwd?: string): Promise<void> {
  const wantsServer = readFileSync(file, "utf8").includes("sluice/postgres");
  const env = { ...process.env, ...(wantsServer && { DATABASE_URL: await temporaryDatabase() }) };
  await promisify(execFile)(process.execPath, [file], { timeout: 60_000, cwd, env });
}

function list(path: string, ending: string): string[] {
  return readdirSync(path, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(ending))
    .map((file) => join(path, file));
}
