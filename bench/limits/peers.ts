import type { Skipped } from "../harness.ts";

/** Who would be measured beside us if what it needs were there. */
export const absent: readonly Skipped[] = [
  {
    name: "BullMQ",
    reason: "it keeps its jobs and its limit in a Redis server, and no server is started for this benchmark",
  },
];
