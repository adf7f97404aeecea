import { type Contender, notes, type Skipped } from "../harness.ts";
import { thousands } from "../ranking.ts";
import type { Bench, QueueContender } from "./bench.ts";
import { betterQueue, fastq, pQueue, workglow } from "./memory-peers.ts";
import { raw, rawOneByOne } from "./raw.ts";
import { inMemory, onSqlite } from "./sluice.ts";
import { liteque, notOnSqlite, plainjob } from "./sqlite-peers.ts";
import { withFile } from "./temporary.ts";

/** Contenders that store their jobs in the same way. */
export interface Field {
  readonly where: string;
  readonly contenders: readonly QueueContender[];
  readonly skipped: readonly Skipped[];
}

export const sqlite: Field = {
  where: "on SQLite",
  contenders: [raw, rawOneByOne, onSqlite, plainjob, liteque],
  skipped: notOnSqlite,
};
export const memory: Field = {
  where: "in memory",
  contenders: [inMemory, workglow, betterQueue, fastq, pQueue],
  skipped: [],
};

export interface Course {
  readonly jobs: number;
  readonly concurrency: number;
  /** Gets a queue of its own, and answers with how much was done per second. */
  readonly run: (bench: Bench, jobs: number, contender: QueueContender) => Promise<number>;
}

/** Runs every contender through the same case, each on a new queue. */
export function over(contenders: readonly QueueContender[], { jobs, concurrency, run }: Course): Contender<number>[] {
  return contenders.map((contender) => {
    const { name, role, note, atMost = jobs, create } = contender;
    const own = Math.min(jobs, atMost);
    return {
      name,
      role,
      note: notes(note, own < jobs && `${thousands(own)} jobs`),
      async prepare() {
        const once = () =>
          withFile(async (file) => {
            const bench = await create(file, concurrency);
            try {
              return await run(bench, own, contender);
            } finally {
              await bench.close();
            }
          });
        return once;
      },
    };
  });
}
