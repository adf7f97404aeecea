import type { Benchmark } from "../row.ts";

export const benchmark: Benchmark = {
  title: "Limiters",
  intro:
    "Everything here is one process and one thread: what a limiter costs, and whether its limit holds. Every contender " +
    "runs once per round, each round begins with another one, a first round is not counted, the garbage collector runs " +
    "before every measurement, and the median of the rounds is reported.",
  modules: [
    "queued-concurrency.ts",
    "uncontended-concurrency.ts",
    "uncontended-rate.ts",
    "saturated-window.ts",
    "heap.ts",
  ],
};
