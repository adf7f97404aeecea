import { type JobStorage, Queue, Worker } from "../dist/index.js";
import { interleave, median, type Rounds } from "./harness.ts";
import type { Answer, Row } from "./row.ts";

const CONCURRENCY = 100;
const FILL = 1_000;
const MOST = 1.3;

/** A storage with nothing in it, for one measurement. */
export type WithStorage = <T>(use: (storage: JobStorage) => Promise<T>) => Promise<T>;

/** How long a drain takes, in milliseconds: until all is settled, and all that wait have their results. */
async function drained(storage: JobStorage, jobs: number, waits: boolean): Promise<number> {
  const queue = new Queue("bench", { storage });
  const added = [];
  for (let n = 0; n < jobs; n += FILL) {
    const count = Math.min(FILL, jobs - n);
    added.push(
      ...(await queue.addBulk(Array.from({ length: count }, (_, i) => ({ type: "bench", data: { n: n + i } })))),
    );
  }
  const results = waits ? Promise.all(added.map((job) => job.result())) : Promise.resolve([]);
  // One more, behind all of them: those before it have been looked up.
  if (waits) await (await queue.add("none", null)).result({ timeout: 1_000 }).catch(() => {});
  const begin = performance.now();
  const worker = new Worker("bench", { bench: async () => ({ done: true }) }, { storage, concurrency: CONCURRENCY });
  await worker.onIdle();
  await results;
  const took = performance.now() - begin;
  await worker.stop();
  return took;
}

export function waitingRow(where: string, jobs: number, rounds: Rounds, withStorage: WithStorage): Row {
  return {
    title: `Waiting for results ${where}`,
    compares:
      `${jobs.toLocaleString("en-US")} jobs are drained by a worker with concurrency ${CONCURRENCY}, with and without a ` +
      "`result()` that waits for each of them in the same process.",
    async measure(): Promise<Answer> {
      const contender = (name: string, waits: boolean) => ({
        name,
        role: "sluice" as const,
        prepare: async () => () => withStorage((storage) => drained(storage, jobs, waits)),
      });
      const { measured, skipped } = await interleave(
        [contender("without waiters", false), contender("a waiter for each job", true)],
        rounds,
      );
      const [without, waiting] = measured.map(({ figures }) => median(figures)) as [number, number];
      const found = waiting / without;
      return {
        columns: ["drain", "ms", "lowest to highest"],
        lines: measured.map(({ name, figures }) => [
          name,
          median(figures).toFixed(0),
          `${Math.min(...figures).toFixed(0)} to ${Math.max(...figures).toFixed(0)}`,
        ]),
        verdicts: [
          {
            goal: `at most ${MOST} times the drain without waiters`,
            outcome: found <= MOST ? "won" : "lost",
            found: `${found.toFixed(2)} times`,
          },
        ],
        skipped,
      };
    },
  };
}
