import { type ClaimRequest, defineLimits, type JobStorage, Queue } from "../../dist/index.js";
import { type Contender, interleave, median } from "../harness.ts";
import { thousands } from "../ranking.ts";
import type { Answer, Row } from "../row.ts";
import { size, warmedUp } from "../queue/scale.ts";
import { withFile } from "../queue/temporary.ts";
import { type StorageKind, storageKinds } from "./storages.ts";

const FRONT = 10_000;
const FREE = 10;
const CLAIMS = 1;
const GIVE_UP = 1_000;

/** The jobs in front of those that can start, whose limit is full. */
interface Case {
  readonly name: string;
  readonly goal: boolean;
  readonly type: string;
  /** In so many groups; 0: without. */
  readonly groups: number;
}

const NOTHING = "nothing in front";

interface Found {
  readonly claims: number;
  readonly ms: number;
}

const request: ClaimRequest = {
  queue: "bench",
  worker: "bench",
  max: FREE,
  types: null,
  leaseMs: 600_000,
  limits: [],
  settle: [],
};

/** A limit over one type and one for every group, with the first of them used up wherever the jobs in front are. */
async function fillLimits(storage: JobStorage, { type, groups }: Case): Promise<void> {
  const { rules } = defineLimits({
    service: { max: FREE, per: "1h", types: ["service"] },
    tenant: { max: FREE, per: "1h", by: "group", types: ["tenant"] },
  });
  await storage.limits.define(rules);
  const take = { name: type, weight: FREE, ttlMs: 1_000 };
  for (let n = 0; n < Math.max(1, groups); n++) {
    const taken = await storage.limits.take({ ...take, group: groups === 0 ? null : `group ${n}` });
    if (!taken.granted) throw new Error("the limit was full before it was filled");
  }
}

/** How many claims it takes until all free jobs have started, and how long. The jobs in front were not read before. */
function toStart(kind: StorageKind, one: Case | undefined, front: number): Promise<Found> {
  return withFile(async (file) => {
    const storage = kind.open(file);
    const queue = new Queue("bench", { storage });
    if (one !== undefined) {
      const { type, groups } = one;
      await fillLimits(storage, one);
      const options = (n: number) => (groups === 0 ? {} : { group: `group ${n % groups}` });
      await queue.addBulk(Array.from({ length: front }, (_, n) => ({ type, data: null, options: options(n) })));
    }
    // Of the same type as those in front where it is their group that is full, and of another where it is their type.
    const type = one === undefined || one.groups === 0 ? "free" : one.type;
    await queue.addBulk(Array.from({ length: FREE }, () => ({ type, data: null, options: { group: "free" } })));
    let started = 0;
    let claims = 0;
    const begin = performance.now();
    while (started < FREE && claims < GIVE_UP) {
      const { jobs } = await storage.claim(request);
      claims += 1;
      if (jobs.some(({ group }) => group !== "free")) throw new Error("a job started whose limit is full");
      started += jobs.length;
    }
    const ms = performance.now() - begin;
    await storage.close();
    return { claims, ms };
  });
}

function casesOf(front: number): readonly Case[] {
  const jobs = thousands(front);
  return [
    { name: `${jobs} jobs of a full group`, goal: true, type: "tenant", groups: 1 },
    { name: `${jobs} jobs of a full type`, goal: true, type: "service", groups: 0 },
    { name: `${jobs} jobs of ${jobs} full groups`, goal: false, type: "tenant", groups: front },
  ];
}

async function compare(kind: StorageKind): Promise<Answer> {
  const front = size(FRONT);
  const cases = casesOf(front);
  const contender = (name: string, one: Case | undefined): Contender<Found> => ({
    name,
    role: "sluice",
    note: one?.goal === false ? "no goal: what no claim has come across yet, it has to look at" : undefined,
    prepare: async () => () => toStart(kind, one, front),
  });
  const contenders = [contender(NOTHING, undefined), ...cases.map((one) => contender(one.name, one))];
  const { measured, skipped } = await interleave(contenders, warmedUp(3));
  const most = measured.map(({ figures }) => Math.max(...figures.map(({ claims }) => claims)));
  return {
    columns: ["in front", "claims, the most", "ms, median", "note"],
    lines: measured.map(({ name, note, figures }, i) => [
      name,
      most[i] === GIVE_UP ? `over ${thousands(GIVE_UP)}` : String(most[i]),
      median(figures.map(({ ms }) => ms)).toFixed(2),
      note ?? "",
    ]),
    verdicts: cases
      .filter(({ goal }) => goal)
      .map(({ name }) => {
        const found = most[measured.findIndex((entry) => entry.name === name)]!;
        return {
          goal: `${kind.name}: ${name} in front delay free ones by no more than ${CLAIMS} claim`,
          outcome: found <= CLAIMS ? "won" : "lost",
          found: `all have started after ${found}`,
        };
      }),
    skipped,
  };
}

export const rows: readonly Row[] = storageKinds.map((kind) => ({
  title: `Full limits in front of free jobs: ${kind.name}`,
  compares:
    `${FREE} jobs that could start were added after ${thousands(FRONT)} whose limit is full. Claims of ${FREE} until all of the free ones have ` +
    "started: the most of all rounds, and how long that took. It is the first claim that comes across the jobs in front.",
  measure: () => compare(kind),
}));
