import { Queue, Worker } from "../../dist/index.js";
import { PostgresStorage } from "../../dist/storages/postgres/index.js";
import { type Contender, interleave, median, ratio } from "../harness.ts";
import { wideLimits } from "../limits/wide.ts";
import { percent, thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { perSecond } from "../throughput.ts";
import { dataOf } from "../queue/bench.ts";
import { quick, size } from "../queue/scale.ts";
import { newDatabase, newPool, TableKeeper } from "./database.ts";
import { TABLES } from "./sluice.ts";

const LIMITS = [0, 3, 10];
const FILL = 1_000;
/** Warmed up also in a first look: what runs first would look slower than what it is compared with. */
const ROUNDS = { rounds: quick ? 2 : 5 };

/** So many limits keep that much of the speed, with so many jobs at a time. */
const GOAL = { limits: 3, concurrency: 100, share: 0.8 };

function under(count: number, jobs: number, concurrency: number): Contender<number> {
  return {
    name: `${count === 0 ? "no" : count} limits`,
    role: "sluice",
    async prepare() {
      const url = await newDatabase();
      const storage = new PostgresStorage(url);
      await storage.setup();
      const tables = new TableKeeper(newPool(url, 1), TABLES);
      const queue = new Queue("bench", { storage });
      return async () => {
        await tables.clear();
        for (let n = 0; n < jobs; n += FILL) {
          const length = Math.min(FILL, jobs - n);
          await queue.addBulk(Array.from({ length }, (_, i) => ({ type: "bench", data: dataOf(n + i) })));
        }
        await tables.analyze();
        const limits = wideLimits(count);
        const worker = new Worker("bench", async () => {}, { storage, concurrency, limits });
        await worker.start();
        const begin = performance.now();
        await worker.onIdle();
        const found = perSecond(jobs, begin);
        const left = await tables.left();
        if (left > 0) throw new Error(`${left} of ${jobs} jobs are not settled`);
        await worker.stop();
        return found;
      };
    },
  };
}

async function compare(jobs: number, concurrency: number): Promise<Answer> {
  const { measured, skipped } = await interleave(
    LIMITS.map((count) => under(count, jobs, concurrency)),
    ROUNDS,
  );
  const [unlimited] = measured;
  const shares = measured.map(({ figures }) => ratio(figures, unlimited!.figures));
  const goal = shares[LIMITS.indexOf(GOAL.limits)]!;
  return {
    columns: ["limits", "jobs/s", "lowest to highest", "of unlimited"],
    lines: measured.map(({ name, figures }, i) => [
      name,
      thousands(median(figures)),
      `${thousands(Math.min(...figures))} to ${thousands(Math.max(...figures))}`,
      percent(shares[i]!),
    ]),
    verdicts:
      concurrency !== GOAL.concurrency
        ? []
        : [
            {
              goal: `${GOAL.limits} limits keep ${percent(GOAL.share)} of the speed without`,
              outcome: goal >= GOAL.share ? "won" : "lost",
              found: percent(goal),
            },
          ],
    skipped,
  };
}

function rowFor(jobs: number, concurrency: number): Row {
  return {
    title: `Under shared limits: ${concurrency} at a time`,
    compares:
      `${thousands(jobs)} jobs that do nothing wait; a worker with concurrency ${concurrency} starts in the process that added ` +
      "them, under limits that all apply to all of them and never refuse. Until all are settled. Three limits are two " +
      `windows and one of concurrency; ten are six and four.${concurrency === GOAL.concurrency ? "" : " No goal; for comparison."}`,
    measure: () => compare(size(jobs), concurrency),
  };
}

export const rows: readonly Row[] = [rowFor(400, 1), rowFor(8_000, 100)];
