import { defineLimits } from "../../dist/index.js";

/** More than any benchmark here starts. */
const PLENTY = 1_000_000;

/** Windows of several lengths and limits of concurrency, over all jobs or over their type. None is ever in the way. */
const RULES = {
  provider: { max: PLENTY, per: "1s", all: true },
  gpu: { concurrency: PLENTY, types: ["bench"] },
  account: { max: PLENTY, per: 100, types: ["bench"] },
  region: { max: PLENTY, per: "10s", queues: ["bench"] },
  machines: { concurrency: PLENTY, all: true },
  daily: { max: PLENTY, per: "1d", all: true },
  sockets: { concurrency: PLENTY, queues: ["bench"] },
  contract: { max: PLENTY, per: "1m", types: ["bench", "other"] },
  memory: { concurrency: PLENTY, types: ["bench", "other"] },
  burst: { max: PLENTY, per: "5s", all: true },
} as const;

/** The first so many of them; undefined: none. */
export function wideLimits(count: number): ReturnType<typeof defineLimits> | undefined {
  return count === 0 ? undefined : defineLimits(Object.fromEntries(Object.entries(RULES).slice(0, count)));
}

/** Each group has a window of its own, and never fills it. */
export function wideByGroup(): ReturnType<typeof defineLimits> {
  return defineLimits({ tenant: { max: PLENTY, per: "1s", by: "group" } });
}
