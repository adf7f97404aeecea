import { type Contender, interleave, type Measured, notes } from "../harness.ts";
import { nameCell, thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { dataOf } from "../queue/bench.ts";
import { quick, size } from "../queue/scale.ts";
import type { Bench, PostgresContender } from "./bench.ts";
import { type Entry, speedCells, verdictsOf } from "./compare.ts";
import { named, ours, peers, placeFor, raws } from "./contenders.ts";
import { Crew } from "./crew.ts";

const FILL = 1_000;
const PROCESSES = [1, 2] as const;
/** Warmed up also in a first look: the first to use a connection waits for all functions to be read. */
const ROUNDS = { rounds: quick ? 1 : 3 };

/** Jobs per second, with one process and with two. */
type Speeds = readonly [number, number];

interface Case {
  readonly concurrency: number;
  readonly jobs: number;
  readonly contenders: readonly PostgresContender[];
}

export async function fill(bench: Bench, jobs: number): Promise<void> {
  await bench.clear();
  for (let n = 0; n < jobs; n += FILL) {
    await bench.addMany(Array.from({ length: Math.min(FILL, jobs - n) }, (_, i) => dataOf(n + i)));
  }
  await bench.analyze();
}

function running(contender: PostgresContender, { concurrency, jobs }: Case): Contender<Speeds> {
  const own = Math.min(jobs, contender.atMost ?? jobs);
  return {
    name: contender.name,
    role: contender.role,
    note: notes(contender.note, own < jobs && `${thousands(own)} jobs`),
    async prepare() {
      const url = await placeFor(contender);
      const bench = await contender.open(url, concurrency);
      const crew = await Crew.of(contender, url, concurrency, PROCESSES.length);
      return async () => {
        const speeds: number[] = [];
        for (const processes of PROCESSES) {
          await fill(bench, own);
          speeds.push(await crew.drain(bench, own, processes));
        }
        return [speeds[0]!, speeds[1]!];
      };
    },
  };
}

async function compare(one: Case): Promise<Answer> {
  const { measured, skipped } = await interleave(
    one.contenders.map((contender) => running(contender, one)),
    ROUNDS,
  );
  const [alone, both] = PROCESSES.map((_, i) => measured.map((entry) => entryOf(entry, i)));
  const lines = measured.map((entry, i) =>
    [nameCell(entry), named(entry.name).finished].concat(
      speedCells(alone![i]!, alone!),
      speedCells(both![i]!, both!),
      entry.note ?? "",
    ),
  );
  return {
    columns: [
      "contender",
      "finished jobs",
      "jobs/s, 1 process",
      "of best peer",
      "of raw SQL",
      "jobs/s, 2 processes",
      "of best peer",
      "of raw SQL",
      "note",
    ],
    lines: lines.toSorted((a, b) => a[1]!.localeCompare(b[1]!) || number(b[2]!) - number(a[2]!)),
    verdicts: [...verdictsOf(alone!, ", 1 process,"), ...verdictsOf(both!, ", 2 processes,")],
    skipped,
  };
}

function entryOf(measured: Measured<Speeds>, i: number): Entry {
  const figures = measured.figures.map((speeds) => speeds[i]!);
  return { measured: { ...measured, figures }, finished: named(measured.name).finished };
}

function number(cell: string): number {
  return Number(cell.replaceAll(",", ""));
}

const { graphile, graphileBatched, bullMqRemoved, bullMqOnRedisRemoved, pgBoss, pgBossByHand, bullMq } = peers;
const COMMON = [raws.deleted, ours.deleted, graphile, graphileBatched, bullMqRemoved, bullMqOnRedisRemoved];
const KEPT = [raws.kept, ours.kept, pgBossByHand, bullMq];

const CASES: readonly Case[] = [
  // One at a time: the raw SQL is one job per round trip, and a worker of pg-boss waits for its interval after each job.
  { concurrency: 1, jobs: 2_000, contenders: [...COMMON, ...KEPT] },
  { concurrency: 24, jobs: 3_000, contenders: [...COMMON, raws.oneByOne, ...KEPT, pgBoss] },
  {
    concurrency: 100,
    jobs: 8_000,
    contenders: [...COMMON, raws.oneByOne, raws.onFour, raws.taken, ...KEPT, pgBoss],
  },
];

export const rows: readonly Row[] = CASES.map((one) => ({
  title: `Processing: ${one.concurrency} at a time`,
  compares:
    `${thousands(one.jobs)} jobs that do nothing wait; workers with concurrency ${one.concurrency} start, in one process and in ` +
    "two. From the moment the first worker has started, or handles its first job, until all jobs are settled.",
  measure: () => compare({ ...one, jobs: size(one.jobs) }),
}));
