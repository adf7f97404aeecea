import "../scripts/require-node.ts";
import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import { mustLook } from "./checkers/verdict.ts";
import { openDatabases } from "./conductor/databases.ts";
import { makeFolder } from "./conductor/folder.ts";
import { bundleChild } from "./conductor/program.ts";
import { circumstances, writeSection } from "./conductor/results.ts";
import { notesOf, toMarkdown, toText } from "./conductor/table.ts";
import { type Outcome, World } from "./conductor/world.ts";
import { SCENARIOS, stagesOn } from "./scenarios/index.ts";

const { values } = parseArgs({
  options: {
    quick: { type: "boolean", default: false },
    seed: { type: "string" },
    only: { type: "string" },
    keep: { type: "boolean", default: false },
    results: { type: "boolean", default: false },
    storage: { type: "string", default: "sqlite" },
  },
});
const seed = Number(values.seed ?? Date.now() % 1_000_000);
/** How much longer everything takes than in the quick run. */
const FULL = 7;
const scale = values.quick ? 1 : FULL;
const begin = performance.now();
const folder = makeFolder();
console.log(`chaos${values.quick ? ", quick" : ""}, ${values.storage}: seed ${seed}, files in ${folder}`);
const program = await bundleChild(folder);
const databases = await openDatabases(values.storage);

const outcomes: Outcome[] = [];
const worlds: World[] = [];
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => {
    const abandoned = Promise.all(worlds.map((world) => world.abandon())).then(() => databases.close());
    void abandoned.finally(() => {
      rmSync(folder, { recursive: true, force: true });
      process.exit(130);
    });
  });
}
const errors: string[] = [];
for (const wanted of stagesOn(databases.ground, values.only?.split(","))) {
  await Promise.all(
    wanted.map(async (name) => {
      const { database, server } = await databases.make(name);
      const say = (line: string) => console.log(line);
      const world = new World(name, { program, folder, database, server, seed, scale, say });
      worlds.push(world);
      try {
        const outcome = await SCENARIOS[name](world);
        outcomes.push({ ...outcome, verdicts: outcome.verdicts.map(mustLook) });
      } catch (error) {
        errors.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`);
        await world.abandon().catch(() => {});
      }
      await server?.stop();
    }),
  );
}

await databases.close();
if (outcomes.length + errors.length === 0) errors.push(`there is no scenario "${values.only}"`);
const violations = outcomes.flatMap(({ name, verdicts }) =>
  verdicts.flatMap(({ id, violations: found }) => found.map((violation) => `${name}, ${id}: ${violation}`)),
);
const text = [toText(outcomes), "", ...notesOf(outcomes), "I11 (cron) is not applicable: there are no schedules yet."];
console.log(`\n${text.join("\n")}`);
for (const wrong of [...errors, ...violations.slice(0, 40)]) console.error(`VIOLATION ${wrong}`);
const seconds = Math.round((performance.now() - begin) / 1_000);
const failed = errors.length > 0 || violations.length > 0;
if (failed) {
  const only = values.only === undefined ? "" : ` --only "${values.only}"`;
  console.error(`\n${violations.length + errors.length} violations in ${seconds} s. Files are kept in ${folder}.`);
  const on = values.storage === "sqlite" ? "" : ` --storage ${values.storage}`;
  console.error(`Again: node chaos/run.ts${values.quick ? " --quick" : ""}${on}${only} --seed ${seed}`);
} else {
  console.log(`\n0 violations in ${outcomes.length} scenarios, ${seconds} s, seed ${seed}`);
  if (!values.keep) rmSync(folder, { recursive: true, force: true });
}
if (values.results && values.only === undefined && !failed) {
  const how = `${circumstances(databases.version)}. Seed ${seed}, ${seconds} s, 0 violations.`;
  const notes = notesOf(outcomes).map((note) => `- ${note}`);
  writeSection(
    databases.ground === "sqlite" ? "Scenarios" : "Scenarios on Postgres",
    [how, "", toMarkdown(outcomes), "", ...notes, "- I11 (cron): not applicable yet"].join("\n"),
  );
}
process.exitCode = failed ? 1 : 0;
