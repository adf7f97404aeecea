import type { Row } from "./row.ts";

// One row in a process of its own, so that neither the compiler's state nor the heap of another row affects it.
const [module = "", index = ""] = process.argv.slice(2);
const { rows } = (await import(module)) as { rows: readonly Row[] };
const answer = await rows[Number(index)]!.measure();
process.send!(answer, () => process.exit());
