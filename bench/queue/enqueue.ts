import type { Skipped } from "../harness.ts";
import type { Row } from "../row.ts";
import { compareThroughput, perSecond } from "../throughput.ts";
import { type Bench, dataOf, type QueueContender } from "./bench.ts";
import { type Course, type Field, memory, over, sqlite } from "./contenders.ts";
import { rawOneByOne } from "./raw.ts";
import { size, warmedUp } from "./scale.ts";

const BULK = 1_000;
const IN_FLIGHT = 100;

/** Adds so many jobs with so many calls under way. Those that batch add as many in one step. */
function addingWith(inFlight: number): Course["run"] {
  return async (bench, jobs, { batched }) => {
    if (batched === true) return addingInSteps(inFlight)(bench, jobs);
    let n = 0;
    const caller = async () => {
      while (n < jobs) await bench.add(dataOf(n++));
    };
    const begin = performance.now();
    await Promise.all(Array.from({ length: inFlight }, caller));
    return perSecond(jobs, begin);
  };
}

function addingInSteps(step: number): (bench: Bench, jobs: number) => Promise<number> {
  return async (bench, jobs) => {
    const begin = performance.now();
    for (let n = 0; n < jobs; n += step) {
      await bench.addMany(Array.from({ length: Math.min(step, jobs - n) }, (_, i) => dataOf(n + i)));
    }
    return perSecond(jobs, begin);
  };
}

function row(
  title: string,
  compares: string,
  contenders: readonly QueueContender[],
  course: Course,
  skipped: readonly Skipped[],
): Row {
  return {
    title,
    compares,
    async measure() {
      const answer = await compareThroughput(over(contenders, course), warmedUp(5));
      return { ...answer, skipped: [...answer.skipped, ...skipped] };
    },
  };
}

function rowsFor({ where, contenders, skipped }: Field, jobs: number): Row[] {
  // In this mode every contender adds one by one.
  const others = contenders.filter((contender) => contender !== rawOneByOne);
  const unable = others.flatMap(({ name, noBulk }) => (noBulk === undefined ? [] : [{ name, reason: noBulk }]));
  return [
    row(
      `Adding ${where}: one after another`,
      "One job per call, each call awaited before the next.",
      others,
      { jobs: size(jobs), concurrency: 1, run: addingWith(1) },
      skipped,
    ),
    row(
      `Adding ${where}: ${IN_FLIGHT} calls at a time`,
      `One job per call, ${IN_FLIGHT} calls under way at any time.`,
      contenders,
      { jobs: size(2 * jobs), concurrency: 1, run: addingWith(IN_FLIGHT) },
      skipped,
    ),
    row(
      `Adding ${where}: ${BULK} jobs per call`,
      `Jobs in steps of ${BULK}, each of them all or nothing.`,
      others.filter(({ noBulk }) => noBulk === undefined),
      { jobs: size(4 * jobs), concurrency: 1, run: addingInSteps(BULK) },
      [...skipped, ...unable],
    ),
  ];
}

export const rows: readonly Row[] = [...rowsFor(sqlite, 2_000), ...rowsFor(memory, 10_000)];
