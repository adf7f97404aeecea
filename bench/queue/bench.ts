import type { Role } from "../harness.ts";

/** What every job carries. */
export interface Data {
  readonly to: string;
  readonly n: number;
  /** When it was added, where that matters. */
  readonly at?: number;
}

export function dataOf(n: number): Data {
  return { to: "somebody@example.com", n };
}

/** A queue with its workers, empty at first. One of them is made for every measurement. */
export interface Bench {
  add(data: Data): Promise<unknown>;
  /** All of them in one step, if there is such a step. */
  addMany(data: readonly Data[]): Promise<unknown>;
  /** Works off the `jobs` jobs that were added. Resolves when the last of them is settled. */
  drain(jobs: number): Promise<void>;
  /** From now on a worker waits for jobs, and calls `handle` with each. */
  serve(handle: (data: Data) => void): Promise<void>;
  close(): Promise<void>;
}

export interface QueueContender {
  readonly name: string;
  readonly role: Role;
  readonly note?: string;
  /** It adds in steps of the size that is measured, and never one by one. */
  readonly batched?: true;
  /** It has no step for many jobs. */
  readonly noBulk?: string;
  /** So much slower than the others that it gets no more jobs than this. */
  readonly atMost?: number;
  /** It polls at intervals: its latency is measured with fewer samples. */
  readonly polls?: true;
  /** `file`: the database, for contenders that have one. `concurrency`: how many jobs run at the same time. */
  readonly create: (file: string, concurrency: number) => Promise<Bench>;
}
