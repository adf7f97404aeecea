import type { Row } from "../row.ts";
import { allAtOnce, compareThroughput } from "../throughput.ts";
import { concurrencyWrappers, measuring } from "./concurrency-contenders.ts";

const CALLS = 200_000;
const MAX = 10;

async function nothing(): Promise<void> {}

export const rows: readonly Row[] = [
  {
    title: "Queued concurrency",
    compares:
      `${CALLS.toLocaleString("en-US")} calls of an async function that does nothing, made at once under a concurrency ` +
      `of ${MAX}: from the first call until all have ended.`,
    async measure() {
      const contenders = concurrencyWrappers.map((wrapper) =>
        measuring(wrapper, { max: MAX, fn: nothing, calls: CALLS }, allAtOnce),
      );
      const answer = await compareThroughput(contenders, { rounds: 7 }, { ofMinimum: 0.6 });
      const reason = "limits rates only, it has no concurrency";
      const skipped = ["p-throttle", "limiter", "rate-limiter-flexible"].map((name) => ({ name, reason }));
      return { ...answer, skipped: [...answer.skipped, ...skipped] };
    },
  },
];
