import type { Benchmark } from "../row.ts";

export const benchmark: Benchmark = {
  title: "Limits",
  intro:
    "What shared limits cost. Everything here is Sluice against itself: the same jobs without a " +
    "limit, or a small case against a large one. No other queue that runs inside the process has named limits that are " +
    "shared by types, groups and processes, so there is no peer to compare with. Every case runs once per round, each round " +
    "begins with another one, where throughput is measured a first round is not counted, and the median of the rounds is " +
    "reported. Databases are files, in WAL mode with `synchronous = NORMAL`. Jobs do nothing and carry 40 bytes of data.",
  quick: true,
  modules: ["speed.ts", "groups.ts", "claim.ts", "blocked.ts", "front.ts"],
};
