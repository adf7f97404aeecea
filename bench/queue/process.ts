import type { Row } from "../row.ts";
import { compareThroughput, perSecond } from "../throughput.ts";
import { type Bench, dataOf } from "./bench.ts";
import { type Field, memory, over, sqlite } from "./contenders.ts";
import { rawOneByOne } from "./raw.ts";
import { size, warmedUp } from "./scale.ts";
import { onSqlite, onSqliteAlike } from "./sluice.ts";

const FILL = 1_000;

/** From the start of the worker until all that was waiting is settled. */
async function drained(bench: Bench, jobs: number): Promise<number> {
  for (let n = 0; n < jobs; n += FILL) {
    await bench.addMany(Array.from({ length: Math.min(FILL, jobs - n) }, (_, i) => dataOf(n + i)));
  }
  const begin = performance.now();
  await bench.drain(jobs);
  return perSecond(jobs, begin);
}

function rowFor({ where, contenders, skipped }: Field, jobs: number, concurrency: number): Row {
  // With a concurrency of one every contender works one by one.
  const able = concurrency === 1 ? contenders.filter((contender) => contender !== rawOneByOne) : [...contenders];
  if (contenders.includes(onSqlite)) able.push(onSqliteAlike);
  return {
    title: `Processing ${where}: ${concurrency} at a time`,
    compares:
      `${jobs.toLocaleString("en-US")} jobs that do nothing wait; a worker with concurrency ${concurrency} starts. Until all ` +
      "are settled.",
    async measure() {
      const course = { jobs: size(jobs), concurrency, run: drained };
      const answer = await compareThroughput(over(able, course), warmedUp(5), { ofMinimum: 0.5 });
      return { ...answer, skipped: [...answer.skipped, ...skipped] };
    },
  };
}

export const rows: readonly Row[] = [
  rowFor(sqlite, 2_000, 1),
  rowFor(sqlite, 4_000, 10),
  rowFor(sqlite, 8_000, 100),
  rowFor(memory, 10_000, 1),
  rowFor(memory, 10_000, 10),
  rowFor(memory, 10_000, 100),
];
