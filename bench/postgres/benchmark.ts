import type { Benchmark } from "../row.ts";
import { startServers } from "./servers.ts";

export const benchmark: Benchmark = {
  title: "Postgres",
  intro:
    "What a job costs on Postgres, in one process and in two. One server on this " +
    "computer serves all contenders, with its durable settings; each has a database of its own, whose tables are " +
    "emptied before each measurement and analyzed once they are filled. Workers are processes of their own that stay " +
    "for all rounds. Every contender runs once per round, each round begins with another one, where throughput is measured " +
    "a first round is not counted, and the median of the rounds is reported. Like is compared with like: contenders that delete " +
    "finished jobs with each other (`keepFor: 0`), and contenders that keep them with each other. Raw SQL is the least tables and " +
    "statements, written by hand. Queues in Redis are shown for orientation, not as peers: they commit nothing. Jobs do nothing and " +
    "carry 40 bytes of data.",
  quick: true,
  setUp: startServers,
  modules: ["enqueue.ts", "process.ts", "latency.ts", "limits.ts", "claim.ts", "waiting.ts"],
};
