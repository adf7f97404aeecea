import { existsSync, readdirSync } from "node:fs";
import { parseArgs } from "node:util";
import { answerOf } from "./child.ts";
import { installPeers } from "./install.ts";
import { circumstances, fingerprint, writeSection } from "./results.ts";
import type { Answer, Benchmark, Row } from "./row.ts";
import { toMarkdown, toText } from "./table.ts";

const here = new URL("./", import.meta.url);

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false }, only: { type: "string" } },
});
const [name = ""] = positionals;
const { quick, only } = values;
const folder = new URL(`${name}/`, here);
if (name === "" || !existsSync(new URL("benchmark.ts", folder))) {
  console.error(`Usage: node bench/run.ts <${known().join(" | ")}> [--quick] [--only <parts>]`);
  process.exit(1);
}

installPeers();
const begin = performance.now();
const build = fingerprint();
const { benchmark } = (await import(new URL("benchmark.ts", folder).href)) as { benchmark: Benchmark };
if (quick && benchmark.quick === undefined) {
  console.error(`The benchmark "${name}" has no quick form.`);
  process.exit(1);
}
if (only !== undefined && benchmark.only === undefined) {
  console.error(`The benchmark "${name}" has no parts that run on their own.`);
  process.exit(1);
}
// For the processes that measure.
if (quick) process.env["SLUICE_BENCH_QUICK"] = "1";
if (only !== undefined) process.env["SLUICE_BENCH_ONLY"] = only;
const setUp = await benchmark.setUp?.();
const sections: string[] = [];
try {
  for (const path of benchmark.modules) {
    const module = new URL(path, folder).href;
    const { rows } = (await import(module)) as { rows: readonly Row[] };
    for (const [index, row] of rows.entries()) {
      console.log(`\n${row.title}\n  ${row.compares}\n`);
      const answer = await answerOf<Answer>(new URL("row-child.ts", here), [module, String(index)]);
      console.log(`\n${toText(answer)}`);
      sections.push(toMarkdown(row, answer));
    }
  }
} finally {
  await setUp?.end();
}

if (fingerprint() !== build) {
  console.error(
    "\nThe library was built anew while it was measured: these rows cannot be compared, nothing is written.",
  );
  process.exit(1);
}
const seconds = Math.round((performance.now() - begin) / 1000);
if (quick || only !== undefined) {
  console.log(`\nDone in ${seconds} s. A first look: nothing is written.`);
  process.exit();
}
const facts = (setUp?.facts ?? []).map((fact) => `\n- ${fact}`).join("");
const head = `${benchmark.intro}\n\n${circumstances()}${facts}\n- Command: \`npm run bench:${name}\``;
writeSection(benchmark.title, [head, ...sections].join("\n\n"));
console.log(`\nDone in ${seconds} s. Written to bench/RESULTS.md, section "${benchmark.title}".`);

function known(): string[] {
  return readdirSync(here).filter((entry) => existsSync(new URL(`${entry}/benchmark.ts`, here)));
}
