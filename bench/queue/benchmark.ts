import type { Benchmark } from "../row.ts";

export const benchmark: Benchmark = {
  title: "Queue",
  intro:
    "What a job costs, on SQLite and in memory. Every contender runs once per round, each round " +
    "begins with another one, where throughput is measured a first round is not counted, and the median of the rounds is reported. " +
    "Databases are files of their own for each measurement, in WAL mode with `synchronous = NORMAL` for all contenders. The " +
    "limit is what the driver itself does: the least tables and statements, written by hand, with a transaction for as " +
    "many jobs as run at the same time. Sluice on SQLite prefetches short jobs, unless `prefetch` is false. Jobs do nothing and " +
    "carry 40 bytes of data.",
  quick: true,
  modules: ["enqueue.ts", "process.ts", "latency.ts", "cost.ts", "claim.ts", "waiting.ts"],
};
