import "../scripts/require-node.ts";
import { rmSync } from "node:fs";
import { parseArgs } from "node:util";
import { CONTROLS, type Plant, PLANTS } from "./child/spec.ts";
import { makeFolder } from "./conductor/folder.ts";
import { bundleChild } from "./conductor/program.ts";
import { circumstances, writeSection } from "./conductor/results.ts";
import { World } from "./conductor/world.ts";
import { SCENARIOS, type ScenarioName } from "./scenarios/index.ts";

/**
 * Does the harness find planted bugs? Each bug is planted between the product and its storage, in the
 * processes of a short scenario, and the checker that is there for it must see it. "0 violations" means something only beside this.
 */
const WHERE: Readonly<Record<Plant, readonly [ScenarioName, string]>> = {
  "no-token-check": ["pauses", "I3"],
  "two-step-limiter": ["limits", "I5"],
  "client-clock": ["limits", "I5"],
  "double-release": ["limits", "I5"],
  "rescue-without-predicate": ["graceful", "I4"],
  "lost-wake-up": ["limiter liveness", "I13"],
  "late-wake-up": ["steady limit", "I9"],
  "claim-not-atomic": ["commands", "I4"],
  "early-acknowledgement": ["storm", "I1"],
  "key-check-then-insert": ["storm", "I10"],
  "bulk-in-pieces": ["crash points", "I1"],
  "forgotten-settle": ["graceful", "I2"],
  "attempts-not-counted": ["poison", "poison"],
  "pruned-too-early": ["shared limits", "I5"],
  "slot-leak": ["shared limits", "I7"],
  "stamped-at-the-grant": ["busy machine", "I5"],
  "confirmed-too-low": ["busy machine", "I5"],
  "confirmed-before-the-last-call": ["busy machine", "I5"],
  "two-step-limiter, in one step": ["limits", "I5"],
  "client-clock, all right": ["limits", "I5"],
  "double-release, once": ["limits", "I5"],
  "confirmed-before-the-last-call, after it": ["busy machine", "I5"],
};
/** A third of the quick run is enough for each. */
const SCALE = 0.4;

const { values } = parseArgs({
  options: { seed: { type: "string" }, only: { type: "string" }, results: { type: "boolean" } },
});
const seed = Number(values.seed ?? 1);
const begin = performance.now();
const folder = makeFolder();
console.log(`chaos, self-test: seed ${seed}, files in ${folder}`);
const program = await bundleChild(folder);
const wanted = [...PLANTS, ...CONTROLS].filter((plant) => values.only === undefined || values.only === plant);
const rows: string[] = ["planted bug | scenario | found by | for example"];
let missed = 0;
for (const plant of wanted) {
  const [name, expected] = WHERE[plant];
  const world = new World(`${plant}, ${name}`, { program, folder, seed, scale: SCALE, plant, say: () => {} });
  let found: string[] = [];
  let seen = false;
  let failed = false;
  let example = "";
  try {
    const { verdicts } = await SCENARIOS[name](world);
    found = verdicts.flatMap(({ id, violations }) => (violations.length > 0 ? [`${id} (${violations.length})`] : []));
    example = verdicts.find(({ id }) => id === expected)?.violations[0] ?? "";
    seen = example !== "";
  } catch (error) {
    failed = true;
    example = `the scenario itself failed: ${String(error)}`;
    await world.abandon().catch(() => {});
  }
  const isControl = (CONTROLS as readonly string[]).includes(plant);
  const isRight = seen !== isControl && !failed;
  if (!isRight) missed += 1;
  const by = isControl ? `control: ${seen ? "FOUND" : "nothing"} by ${expected}` : found.join(", ") || "no checker";
  rows.push(`${plant} | ${name} | ${isRight ? "" : "WRONG: "}${by} | ${example}`);
  console.log(rows.at(-1));
}
const seconds = Math.round((performance.now() - begin) / 1_000);
const right = `${wanted.length - missed} of ${wanted.length} right: planted bugs found by their checker, controls clean`;
console.log(`\n${rows.join("\n")}\n\n${right}, ${seconds} s`);
if (values.results === true && missed === 0 && values.only === undefined) {
  const line = (row: string) => `| ${row} |`;
  const [head = "", ...body] = rows;
  const table = [line(head), "| --- | --- | --- | --- |", ...body.map(line)];
  writeSection(
    "Planted bugs",
    [
      `${circumstances(`SQLite ${process.versions["sqlite"]}`)}. Seed ${seed}, ${seconds} s. ${right}.`,
      "",
      ...table,
    ].join("\n"),
  );
}
if (missed === 0) rmSync(folder, { recursive: true, force: true });
process.exitCode = missed === 0 ? 0 : 1;
