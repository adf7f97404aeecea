import { randomUUID } from "node:crypto";
import type { ClaimRequest, JobStorage } from "../../dist/index.js";
import { median, quantile } from "../harness.ts";
import { thousands, times } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { quick, rounds } from "../queue/scale.ts";
import { type Backlog, type Filled, filled, newJob } from "./backlog.ts";

const MAX = 10;
const CLAIMS = quick ? 200 : 400;
/** How many claims are measured right after a large backlog with groups was added. */
const FIRST = quick ? 50 : 400;
const WARM_UP = 30;
const WITHIN = 2;

const small: Backlog = { jobs: 1_000, groups: 0 };
const smallGrouped: Backlog = { jobs: 1_000, groups: 1_000 };
/** A million takes too long for a first look. */
const large: Backlog = { jobs: quick ? 100_000 : 1_000_000, groups: 0, delayed: quick ? 10_000 : 100_000 };
const largeGrouped: Backlog = { jobs: large.jobs, groups: quick ? 10_000 : 100_000 };
const BACKLOGS = [small, large, smallGrouped, largeGrouped];

const request: ClaimRequest = {
  queue: "bench",
  worker: "bench",
  max: MAX,
  types: null,
  leaseMs: 30_000,
  limits: [],
  settle: [],
};

/** Microseconds of each claim. As many jobs are completed and added in between, so that the backlog stays what it is. */
async function claimTimes(storage: JobStorage, { groups }: Backlog, claims: number): Promise<number[]> {
  const figures: number[] = [];
  for (let i = 0; i < claims; i++) {
    const begin = performance.now();
    const { jobs } = await storage.claim(request);
    figures.push((performance.now() - begin) * 1_000);
    if (jobs.length !== MAX) throw new Error(`${jobs.length} of ${MAX} jobs were claimed`);
    await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
    await storage.add(jobs.map((_, n) => newJob(i * MAX + n, groups, randomUUID())));
  }
  return figures;
}

/** Until every group has its lane. The answer: what the first claims took. */
async function arrive({ storage, arriving }: Filled, backlog: Backlog): Promise<number[]> {
  const first = await claimTimes(storage, backlog, FIRST);
  // New ones are added all the time.
  while ((await arriving()) > MAX) await claimTimes(storage, backlog, CLAIMS / 4);
  return first;
}

async function compare(): Promise<Answer> {
  const places: Filled[] = [];
  for (const backlog of BACKLOGS) {
    console.log(`  making ${describe(backlog)}`);
    places.push(await filled(backlog));
  }
  const figures = new Map<Backlog, number[]>(BACKLOGS.map((backlog) => [backlog, []]));
  for (const [i, { storage }] of places.entries()) await claimTimes(storage, BACKLOGS[i]!, WARM_UP);
  const first = await arrive(places[3]!, largeGrouped);
  for (let round = 1; round <= rounds(3); round++) {
    for (let i = 0; i < places.length; i++) {
      const at = (i + round) % places.length;
      const backlog = BACKLOGS[at]!;
      figures.get(backlog)!.push(...(await claimTimes(places[at]!.storage, backlog, CLAIMS)));
    }
  }
  for (const { storage } of places) await storage.close();
  const lines: Line[] = [
    { name: describe(small), figures: figures.get(small)!, base: figures.get(small)! },
    { name: describe(large), figures: figures.get(large)!, base: figures.get(small)! },
    { name: describe(smallGrouped), figures: figures.get(smallGrouped)!, base: figures.get(smallGrouped)! },
    { name: describe(largeGrouped), figures: figures.get(largeGrouped)!, base: figures.get(smallGrouped)! },
    { name: `${describe(largeGrouped)}, just added`, figures: first, base: figures.get(smallGrouped)! },
  ];
  return {
    columns: ["waiting", "µs, median", "µs, p99", "p99 of the small one"],
    lines: lines.map((line) => [
      line.name,
      thousands(median(line.figures)),
      thousands(quantile(line.figures, 0.99)),
      times(growth(line)),
    ]),
    verdicts: lines
      .filter(({ figures: own, base }) => own !== base)
      .map((line) => ({
        goal: `The p99 of claims from ${line.name} is at most ${WITHIN}x that from 1,000`,
        outcome: growth(line) <= WITHIN ? "won" : "lost",
        found: times(growth(line)),
      })),
    skipped: [],
  };
}

interface Line {
  readonly name: string;
  readonly figures: readonly number[];
  /** The small one that it is compared with: with groups or without, as it is itself. */
  readonly base: readonly number[];
}

function growth({ figures, base }: Line): number {
  return quantile(figures, 0.99) / quantile(base, 0.99);
}

function describe({ jobs, groups, delayed = 0 }: Backlog): string {
  const beside = delayed === 0 ? "" : `, ${thousands(delayed)} more delayed`;
  return `${thousands(jobs)} jobs${groups === 0 ? "" : ` in ${thousands(groups)} groups`}${beside}`;
}

export const rows: readonly Row[] = [
  {
    title: "Claims from a large backlog",
    compares:
      `One claim of ${MAX} jobs, nothing to settle, from backlogs of different sizes: ${CLAIMS} per round, each with its commit. ` +
      "Between claims what was claimed is completed, and as many jobs are added. Just added: the first claims, while lanes " +
      "are still opened for the groups, some with each claim.",
    measure: compare,
  },
];
