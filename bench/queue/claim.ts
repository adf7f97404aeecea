import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ClaimRequest, JobStorage } from "../../dist/index.js";
import { median } from "../harness.ts";
import { thousands, times } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { type Backlog, inMemory, onSqlite } from "./backlog.ts";
import { quick, rounds } from "./scale.ts";

const MAX = 10;
const CLAIMS = 100;
const WITHIN = 2;

const SIZES: readonly Backlog[] = [
  { jobs: 1_000, groups: 0 },
  { jobs: 1_000, groups: 1_000 },
  { jobs: 100_000, groups: 0 },
  { jobs: 100_000, groups: 100_000 },
  { jobs: 1_000_000, groups: 0 },
  { jobs: 1_000_000, groups: 100_000 },
];
/** A million takes too long for a first look. */
const BACKLOGS = SIZES.filter(({ jobs }) => !quick || jobs < 1_000_000);

const request: ClaimRequest = {
  queue: "bench",
  worker: "bench",
  max: MAX,
  types: null,
  leaseMs: 30_000,
  limits: [],
  settle: [],
};

/** Microseconds of one claim, the median of many. What was claimed is given back, so that the backlog stays what it is. */
async function claimTime(storage: JobStorage): Promise<number> {
  const figures: number[] = [];
  for (let i = 0; i < CLAIMS; i++) {
    const begin = performance.now();
    const { jobs } = await storage.claim(request);
    figures.push((performance.now() - begin) * 1_000);
    if (jobs.length !== MAX) throw new Error(`${jobs.length} of ${MAX} jobs were claimed`);
    await storage.settle(
      jobs.map(({ id, token }) => ({
        id,
        token,
        to: "back",
        inMs: 0,
        held: false,
        error: null,
        hold: null,
        unstarted: false,
      })),
    );
  }
  return median(figures);
}

async function compare(open: (backlog: Backlog, i: number) => Promise<JobStorage>): Promise<Answer> {
  const storages: JobStorage[] = [];
  for (const [i, backlog] of BACKLOGS.entries()) {
    console.log(`  making ${describe(backlog)}`);
    storages.push(await open(backlog, i));
  }
  const figures: number[][] = BACKLOGS.map(() => []);
  for (let round = 0; round <= rounds(5); round++) {
    for (let i = 0; i < storages.length; i++) {
      const at = (i + round) % storages.length;
      const figure = await claimTime(storages[at]!);
      if (round > 0) figures[at]!.push(figure);
    }
  }
  for (const storage of storages) await storage.close();
  const [least, leastInGroups] = figures;
  const ratioTo = (small: readonly number[], i: number) => median(figures[i]!) / median(small);
  return {
    columns: ["waiting", `µs per claim of ${MAX}`, "of 1,000 jobs", "of 1,000 jobs in as many groups"],
    lines: BACKLOGS.map((backlog, i) => [
      describe(backlog),
      thousands(median(figures[i]!)),
      times(ratioTo(least!, i)),
      backlog.groups === 0 ? "" : times(ratioTo(leastInGroups!, i)),
    ]),
    verdicts: BACKLOGS.flatMap((backlog, i) => {
      if (backlog.jobs === 1_000) return [];
      const found = ratioTo(least!, i);
      return {
        goal: `A claim from ${describe(backlog)} takes at most ${WITHIN}x as long as from 1,000`,
        outcome: found <= WITHIN ? ("won" as const) : ("lost" as const),
        found: times(found),
      };
    }),
    skipped: [],
  };
}

function describe({ jobs, groups }: Backlog): string {
  return `${thousands(jobs)} jobs${groups === 0 ? "" : ` in ${thousands(groups)} groups`}`;
}

const what =
  `One claim of ${MAX} jobs, nothing to settle, from backlogs of different sizes: the median of ${CLAIMS} per round. What was ` +
  "claimed is given back between measurements.";

export const rows: readonly Row[] = [
  {
    title: "Claims from a large backlog: SqliteStorage",
    compares: what,
    async measure() {
      const folder = mkdtempSync(join(tmpdir(), "sluice-bench-"));
      try {
        return await compare((backlog, i) => onSqlite(join(folder, `${i}.db`), backlog));
      } finally {
        rmSync(folder, { recursive: true, force: true });
      }
    },
  },
  { title: "Claims from a large backlog: MemoryStorage", compares: what, measure: () => compare(inMemory) },
];
