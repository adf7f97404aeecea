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

interface Case {
  readonly name: string;
  readonly limits: number;
  /** Does the worker prefetch jobs where it may? */
  readonly prefetch: boolean;
}

const UNLIMITED: Case = { name: "no limits", limits: 0, prefetch: true };
/** As jobs under limits are claimed: to start at once. */
const AT_ONCE: Case = { name: "no limits, nothing prefetched", limits: 0, prefetch: false };
const THREE: Case = { name: "3 limits", limits: 3, prefetch: true };
const CASES = [UNLIMITED, AT_ONCE, THREE, { name: "10 limits", limits: 10, prefetch: true }];
const FILL = 1_000;
/** Warmed up also in a first look: what runs first would look slower than what it is compared with. */
const ROUNDS = { rounds: quick ? 2 : 5 };

/** So many limits keep that much of the speed, with so many jobs at a time. */
const GOAL = { concurrency: 100, share: 0.8 };

function under({ name, limits: count, prefetch }: Case, jobs: number, concurrency: number): Contender<number> {
  return {
    name,
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
        const worker = new Worker("bench", async () => {}, { storage, concurrency, limits, prefetch });
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
    CASES.map((one) => under(one, jobs, concurrency)),
    ROUNDS,
  );
  const sharesOf = (one: Case) => measured.map(({ figures }) => ratio(figures, measured[CASES.indexOf(one)]!.figures));
  const shares = sharesOf(UNLIMITED);
  const atOnce = sharesOf(AT_ONCE);
  const goal = shares[CASES.indexOf(THREE)]!;
  return {
    columns: ["limits", "jobs/s", "lowest to highest", "of unlimited", "of nothing prefetched"],
    lines: measured.map(({ name, figures }, i) => [
      name,
      thousands(median(figures)),
      `${thousands(Math.min(...figures))} to ${thousands(Math.max(...figures))}`,
      percent(shares[i]!),
      percent(atOnce[i]!),
    ]),
    verdicts:
      concurrency !== GOAL.concurrency
        ? []
        : [
            {
              goal: `${THREE.limits} limits keep ${percent(GOAL.share)} of the speed without`,
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
      "them, under limits that all apply to all of them and never refuse. Until all are settled. Jobs under limits are " +
      "claimed to start at once; without limits some are prefetched, unless the worker is told not to. Three limits are two " +
      `windows and one of concurrency; ten are six and four.${concurrency === GOAL.concurrency ? "" : " No goal; for comparison."}`,
    measure: () => compare(size(jobs), concurrency),
  };
}

export const rows: readonly Row[] = [rowFor(400, 1), rowFor(8_000, 100)];
