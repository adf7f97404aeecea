import { type JobStorage, Worker } from "../../dist/index.js";
import { type Contender, interleave, median, ratio, type Rounds } from "../harness.ts";
import { percent, thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { perSecond } from "../throughput.ts";
import { quick, size } from "../queue/scale.ts";
import { memory, type StorageKind, sqlite } from "./storages.ts";
import { type Shelf, withShelf } from "./shelf.ts";
import { wideByGroup } from "./wide.ts";

const CONCURRENCY = 100;
const BACKLOG = 100_000;
/** Whole multiples of the groups, also in a first look. */
const WAITING = quick ? 10_000 : BACKLOG;
const GROUPS = [1, 1_000, 100_000];
/** Warmed up also in a first look: what runs first would look slower than what it is compared with. */
const ROUNDS: Rounds = { rounds: quick ? 3 : 5 };

interface Case {
  readonly groups: number;
  readonly limited: boolean;
}

const CASES: readonly Case[] = GROUPS.flatMap((groups) => [
  { groups: Math.min(groups, WAITING), limited: false },
  { groups: Math.min(groups, WAITING), limited: true },
]);

/** From the start of a worker until it has called its handler so many times. The backlog is larger than that. */
async function started(storage: JobStorage, jobs: number, limited: boolean): Promise<number> {
  const begin = performance.now();
  let worker: Worker | undefined;
  const found = await new Promise<number>((resolve) => {
    let called = 0;
    const handler = async () => {
      called += 1;
      if (called === jobs) resolve(perSecond(jobs, begin));
    };
    worker = new Worker("bench", handler, {
      storage,
      concurrency: CONCURRENCY,
      limits: limited ? wideByGroup() : undefined,
    });
  });
  await worker!.stop();
  return found;
}

async function compare(shelf: Shelf, jobs: number): Promise<Answer> {
  const contenders = CASES.map((one): Contender<number> => ({
    name: describe(one),
    role: "sluice",
    async prepare() {
      const storage = await shelf.put({ jobs: WAITING, groups: one.groups });
      return () => started(storage, jobs, one.limited);
    },
  }));
  const { measured, skipped } = await interleave(contenders, ROUNDS);
  return {
    columns: ["groups", "jobs/s", "lowest to highest", "of the same without a limit"],
    lines: measured.map(({ name, figures }, i) => [
      name,
      thousands(median(figures)),
      `${thousands(Math.min(...figures))} to ${thousands(Math.max(...figures))}`,
      CASES[i]!.limited ? percent(ratio(figures, measured[i - 1]!.figures)) : "",
    ]),
    verdicts: [],
    skipped,
  };
}

function describe({ groups, limited }: Case): string {
  return `${thousands(groups)} ${groups === 1 ? "group" : "groups"}, ${limited ? "limited by group" : "no limit"}`;
}

function rowFor(kind: StorageKind, jobs: number): Row {
  return {
    title: `Jobs under a limit by group: ${kind.name}`,
    compares:
      `${thousands(BACKLOG)} jobs wait in so many groups; a worker with concurrency ${CONCURRENCY} works off ${thousands(jobs)} of them. ` +
      "Without a limit, and with a window of its own for each group that never refuses. No goal; for comparison.",
    measure: () => withShelf(kind, (shelf) => compare(shelf, size(jobs))),
  };
}

export const rows: readonly Row[] = [rowFor(sqlite, 4_000), rowFor(memory, 8_000)];
