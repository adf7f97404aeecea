import { execFile } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, describe, expect, it } from "vitest";

/*
 * What the documents show is run as a reader would run it: by Node, against the built package. Blocks marked
 * ```ts are programs of their own; ```ts fragment ones are not run.
 */
const run = promisify(execFile);
const folder = join(".tmp", `documents-${process.pid}`);
mkdirSync(folder, { recursive: true });
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const documents = ["README.md", ...list("docs", ".md").filter((file) => !file.includes("decisions"))];
const examples = ["promises", "limiters", "queue", "limits"].flatMap((group) => list(join("examples", group), ".ts"));

describe.each(documents)("%s", (document) => {
  const blocks = [...readFileSync(document, "utf8").matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = ""]) => code);

  it("shows code", () => {
    expect(blocks.length).toBeGreaterThan(0);
  });

  it.each(blocks.map((code, i) => [i + 1, code] as const))("block %i runs", async (i, code) => {
    const file = join(folder, `${document.replaceAll(/\W/g, "-")}-${i}.ts`);
    writeFileSync(file, code);
    // In a folder of its own: some of them write files.
    await run(process.execPath, [resolve(file)], { timeout: 60_000, cwd: folder });
  });
});

describe("examples", () => {
  it.each(examples)("%s runs, and what it claims is so", async (file) => {
    await run(process.execPath, [file], { timeout: 60_000 });
  });
});

function list(path: string, ending: string): string[] {
  return readdirSync(path, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(ending))
    .map((file) => join(path, file));
}
