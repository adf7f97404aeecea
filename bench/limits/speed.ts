import { Queue, Worker } from "../../dist/index.js";
import { type Contender, interleave, median, ratio, type Rounds } from "../harness.ts";
import { percent, thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { perSecond } from "../throughput.ts";
import { dataOf } from "../queue/bench.ts";
import { quick, size } from "../queue/scale.ts";
import { withFile } from "../queue/temporary.ts";
import { absent } from "./peers.ts";
import { memory, type StorageKind, sqlite } from "./storages.ts";
import { wideLimits } from "./wide.ts";

const LIMITS = [0, 1, 3, 10];
const FILL = 1_000;
/** Warmed up also in a first look: what runs first would look slower than what it is compared with. */
const ROUNDS: Rounds = { rounds: quick ? 3 : 5 };

/** So many limits keep that much of the speed, with so many jobs at a time. */
const GOAL = { limits: 3, concurrency: 100, share: 0.8 };

interface Course {
  readonly kind: StorageKind;
  readonly jobs: number;
  readonly concurrency: number;
}

/** From the start of the worker, which declares its limits, until all that was waiting is settled. */
function drained({ kind, jobs, concurrency }: Course, count: number): Promise<number> {
  return withFile(async (file) => {
    const storage = kind.open(file);
    const queue = new Queue("bench", { storage });
    for (let n = 0; n < jobs; n += FILL) {
      const length = Math.min(FILL, jobs - n);
      await queue.addBulk(Array.from({ length }, (_, i) => ({ type: "bench", data: dataOf(n + i) })));
    }
    const begin = performance.now();
    const worker = new Worker("bench", async () => {}, { storage, concurrency, limits: wideLimits(count) });
    await worker.onIdle();
    const found = perSecond(jobs, begin);
    const { completed } = await queue.counts();
    if (completed !== jobs) throw new Error(`${completed} of ${jobs} jobs are completed`);
    await worker.stop();
    await storage.close();
    return found;
  });
}

async function compare(course: Course): Promise<Answer> {
  const contenders = LIMITS.map((count): Contender<number> => ({
    name: named(count),
    role: "sluice",
    prepare: async () => () => drained(course, count),
  }));
  const { measured, skipped } = await interleave(contenders, ROUNDS);
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
      course.concurrency !== GOAL.concurrency
        ? []
        : [
            {
              goal: `${course.kind.name}: ${named(GOAL.limits)} keep ${percent(GOAL.share)} of the speed without`,
              outcome: goal >= GOAL.share ? "won" : "lost",
              found: percent(goal),
            },
          ],
    skipped: [...skipped, ...absent],
  };
}

function named(count: number): string {
  return `${count === 0 ? "no" : count} ${count === 1 ? "limit" : "limits"}`;
}

function rowFor(kind: StorageKind, jobs: number, concurrency: number): Row {
  return {
    title: `Jobs under shared limits, ${kind.name}: ${concurrency} at a time`,
    compares:
      `${thousands(jobs)} jobs that do nothing wait; a worker with concurrency ${concurrency} starts, under limits that all ` +
      "apply to all of them and never refuse. Until all are settled. One limit is a window; three are two windows and one of " +
      `concurrency; ten are six and four.${concurrency === GOAL.concurrency ? "" : " No goal; for comparison."}`,
    measure: () => compare({ kind, jobs: size(jobs), concurrency }),
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
