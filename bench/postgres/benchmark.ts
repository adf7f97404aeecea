import type { Benchmark } from "../row.ts";
import { startServers } from "./servers.ts";

export const benchmark: Benchmark = {
  title: "Postgres",
  intro:
    "What a job costs on Postgres, in one process and in two. One server on this " +
    "computer serves everybody, with its durable settings; each contender has a database of its own, whose tables are " +
    "emptied before each measurement and analyzed once they are filled. Whoever works is a process of its own that stays " +
    "for all rounds. Every contender runs once per round, each round begins with another one, where throughput is measured " +
    "a first round is not counted, and the median of the rounds is reported. Like is compared with like: who deletes " +
    "finished jobs with who deletes them (`keepFor: 0`), who keeps them with who keeps them. Raw SQL is the least tables and " +
    "statements, written by hand. What is kept in Redis is shown, and is no peer: it commits nothing. Jobs do nothing and " +
    "carry 40 bytes of data.",
  quick: true,
  setUp: startServers,
  modules: ["enqueue.ts", "process.ts", "latency.ts", "limits.ts", "claim.ts", "waiting.ts"],
};
