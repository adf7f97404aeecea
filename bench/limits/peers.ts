import type { Skipped } from "../harness.ts";

/** The peers that are measured where their packages are installed. */
export const absent: readonly Skipped[] = [
  {
    name: "BullMQ",
    reason: "it keeps its jobs and its limit in a Redis server, and no server is started for this benchmark",
  },
];
