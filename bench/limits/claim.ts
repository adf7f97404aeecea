import { type ClaimRequest, defineLimits, type JobStorage } from "../../dist/index.js";
import { median } from "../harness.ts";
import { thousands, times } from "../ranking.ts";
import type { Answer, Row, Verdict } from "../row.ts";
import type { Backlog } from "../queue/backlog.ts";
import { quick, rounds } from "../queue/scale.ts";
import { type StorageKind, storageKinds } from "./storages.ts";
import { type Shelf, withShelf } from "./shelf.ts";

const MAX = 10;
const CLAIMS = 100;
const WITHIN = 2;

interface Case extends Backlog {
  /** So many of the groups are full. */
  readonly full: number;
}

const SMALL: Case = { jobs: 1_000, groups: 10, full: 0 };
const SIZES: readonly Case[] = [
  SMALL,
  { jobs: 100_000, groups: 10_000, full: 0 },
  { jobs: 1_000_000, groups: 100_000, full: 0 },
  { jobs: 10_000, groups: 1_000, full: 990 },
  { jobs: 100_000, groups: 10_000, full: 9_900 },
  { jobs: 1_000_000, groups: 100_000, full: 99_000 },
];
/** A million takes too long for a first look. */
const CASES = SIZES.filter(({ jobs }) => !quick || jobs < 1_000_000);

const request: ClaimRequest = {
  queue: "bench",
  worker: "bench",
  max: MAX,
  types: null,
  leaseMs: 600_000,
  limits: [],
  settle: [],
};

/** Microseconds. */
interface Times {
  readonly claim: number;
  readonly settle: number;
}

interface Found extends Times {
  /** The same claim without the limit; null: it was not measured. */
  readonly unlimited: number | null;
}

/** Gives claimed jobs back as never started, so that backlog and limits stay as they are. */
async function claimOnce(storage: JobStorage): Promise<Times & { readonly jobs: number }> {
  const begin = performance.now();
  const { jobs } = await storage.claim(request);
  const claimed = performance.now();
  await storage.settle(
    jobs.map(({ id, token }) => ({
      id,
      token,
      to: "back",
      inMs: 0,
      held: false,
      error: null,
      hold: null,
      unstarted: true,
    })),
  );
  const settled = performance.now();
  return { jobs: jobs.length, claim: (claimed - begin) * 1_000, settle: (settled - claimed) * 1_000 };
}

/** The median of many. */
async function timesOf(storage: JobStorage): Promise<Times> {
  const found: Times[] = [];
  for (let i = 0; i < CLAIMS; i++) {
    const { jobs, ...own } = await claimOnce(storage);
    if (jobs !== MAX) throw new Error(`${jobs} of ${MAX} jobs were claimed`);
    found.push(own);
  }
  return { claim: median(found.map(({ claim }) => claim)), settle: median(found.map(({ settle }) => settle)) };
}

const { rules } = defineLimits({ tenant: { max: MAX, per: "1h", by: "group" } });

/** A limit by group that some groups have used up, and claims have come across all of these. */
async function prepared(shelf: Shelf, { jobs, groups, full }: Case): Promise<JobStorage> {
  const storage = await shelf.put({ jobs, groups });
  await storage.limits.define(rules);
  const take = { name: "tenant", weight: MAX, ttlMs: 1_000 };
  for (let n = 0; n < full; n++) {
    const { granted } = await storage.limits.take({ ...take, group: `group ${n}` });
    if (!granted) throw new Error(`group ${n} was full before it was filled`);
  }
  // Every group once, full or not: a claim ends after so many refused heads.
  if (full > 0) for (let n = 0; n < full / 500 + (groups - full) / MAX; n++) await claimOnce(storage);
  return storage;
}

/** Without the limit, where nothing has been counted that would be forgotten with it; then under it. */
async function measureOnce(storage: JobStorage, { full }: Case): Promise<Found> {
  if (full > 0) return { ...(await timesOf(storage)), unlimited: null };
  await storage.limits.remove("tenant");
  const { claim: unlimited } = await timesOf(storage);
  await storage.limits.define(rules);
  return { ...(await timesOf(storage)), unlimited };
}

async function compare(shelf: Shelf): Promise<Answer> {
  const storages: JobStorage[] = [];
  for (const one of CASES) {
    console.log(`  making ${describe(one)}`);
    storages.push(await prepared(shelf, one));
  }
  const found: Found[][] = CASES.map(() => []);
  for (let round = 0; round <= rounds(5); round++) {
    for (let i = 0; i < storages.length; i++) {
      const at = (i + round) % storages.length;
      const own = await measureOnce(storages[at]!, CASES[at]!);
      if (round > 0) found[at]!.push(own);
    }
  }
  const own = found.map((all) => ({
    claim: median(all.map(({ claim }) => claim)),
    settle: median(all.map(({ settle }) => settle)),
    unlimited: median(all.flatMap(({ unlimited }) => unlimited ?? [])),
  }));
  const [small] = own;
  const ratios = own.map(({ claim, settle }) => ({ claim: claim / small!.claim, settle: settle / small!.settle }));
  return {
    columns: [
      "waiting",
      `µs per claim of ${MAX}`,
      "of the small case",
      "of the same without a limit",
      "µs to give back",
      "of the small case",
    ],
    lines: CASES.map((one, i) => [
      describe(one),
      thousands(own[i]!.claim),
      times(ratios[i]!.claim),
      one.full > 0 ? "" : times(own[i]!.claim / own[i]!.unlimited),
      thousands(own[i]!.settle),
      times(ratios[i]!.settle),
    ]),
    verdicts: CASES.slice(1).flatMap((one, i) => [
      verdict(`A claim from ${describe(one)} takes`, ratios[i + 1]!.claim),
      verdict(`Giving back to ${describe(one)} takes`, ratios[i + 1]!.settle),
    ]),
    skipped: [],
  };
}

function verdict(what: string, found: number): Verdict {
  return {
    goal: `${what} at most ${WITHIN}x as long as with ${describe(SMALL)}`,
    outcome: found <= WITHIN ? "won" : "lost",
    found: times(found),
  };
}

function describe({ jobs, groups, full }: Case): string {
  const room = full === 0 ? "" : `, ${full / (groups / 100)} % of them full`;
  return `${thousands(jobs)} jobs in ${thousands(groups)} groups${room}`;
}

function rowFor(kind: StorageKind): Row {
  return {
    title: `Claims under a limit by group: ${kind.name}`,
    compares:
      `One claim of ${MAX} jobs under a limit by group, from backlogs of different sizes: the median of ${CLAIMS} per round. What ` +
      "was claimed is given back as not started, which takes it back from the limit. Full: the window of the group is " +
      "used up, and claims have come across that before.",
    measure: () => withShelf(kind, compare),
  };
}

export const rows: readonly Row[] = storageKinds.map(rowFor);
