import { type Contender, interleave, notes } from "../harness.ts";
import { nameCell, thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { perSecond } from "../throughput.ts";
import { dataOf } from "../queue/bench.ts";
import { quick, size } from "../queue/scale.ts";
import type { Bench, PostgresContender } from "./bench.ts";
import { type Entry, speedCells, verdictsOf } from "./compare.ts";
import { ours, peers, placeFor, raws } from "./contenders.ts";

const BULK = 1_000;
const IN_FLIGHT = 100;
/** Warmed up also in a first look. */
const ROUNDS = { rounds: quick ? 1 : 3 };

/** Whether finished jobs are kept makes no difference here. */
const CONTENDERS = [raws.deleted, ours.kept, peers.graphile, peers.pgBossByHand, peers.bullMq, peers.bullMqOnRedis];

type Adding = (bench: Bench, jobs: number) => Promise<unknown>;

/** One job per call, so many calls under way. */
function singly(inFlight: number): Adding {
  return (bench, jobs) => {
    let n = 0;
    const caller = async () => {
      while (n < jobs) await bench.add(dataOf(n++));
    };
    return Promise.all(Array.from({ length: inFlight }, caller));
  };
}

const inBulk: Adding = async (bench, jobs) => {
  for (let n = 0; n < jobs; n += BULK) {
    await bench.addMany(Array.from({ length: Math.min(BULK, jobs - n) }, (_, i) => dataOf(n + i)));
  }
};

function adding(contender: PostgresContender, jobs: number, add: Adding): Contender<number> {
  return {
    name: contender.name.replace(", fetch and complete", ""),
    role: contender.role,
    note: notes(contender.server === "redis" && "not Postgres"),
    async prepare() {
      const bench = await contender.open(await placeFor(contender), 1);
      return async () => {
        await bench.clear();
        const begin = performance.now();
        await add(bench, jobs);
        return perSecond(jobs, begin);
      };
    },
  };
}

async function compare(jobs: number, add: Adding): Promise<Answer> {
  const runs = CONTENDERS.map((contender) => adding(contender, jobs, add));
  const { measured, skipped } = await interleave(runs, ROUNDS);
  const entries = measured.map((entry): Entry => ({ measured: entry, finished: "kept" }));
  const lines = entries.map((entry) => [
    nameCell(entry.measured),
    ...speedCells(entry, entries),
    entry.measured.note ?? "",
  ]);
  return {
    columns: ["contender", "jobs/s", "of best peer", "of raw SQL", "note"],
    lines,
    verdicts: verdictsOf(entries, ""),
    skipped,
  };
}

export const rows: readonly Row[] = [
  {
    title: "Adding: one after another",
    compares: "One job per call, each call awaited before the next.",
    measure: () => compare(size(600), singly(1)),
  },
  {
    title: `Adding: ${IN_FLIGHT} calls at a time`,
    compares: `One job per call, ${IN_FLIGHT} calls under way at any time. Each contender has 10 connections.`,
    measure: () => compare(size(2_000), singly(IN_FLIGHT)),
  },
  {
    title: `Adding: ${thousands(BULK)} jobs per call`,
    compares: `Jobs in steps of ${thousands(BULK)}, each of them all or nothing.`,
    measure: () => compare(size(16_000), inBulk),
  },
];
