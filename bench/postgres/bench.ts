import type { Role } from "../harness.ts";
import type { Data } from "../queue/bench.ts";

/** A queue as one process sees it. */
export interface Bench {
  add(data: Data): Promise<unknown>;
  /** All of them in one step. */
  addMany(data: readonly Data[]): Promise<unknown>;
  /** A worker that calls `handle` with its jobs. Resolves when it has started, with what stops it. */
  work(handle: (data: Data) => void): Promise<() => Promise<void>>;
  /** How many jobs are not settled. */
  left(): Promise<number>;
  /** Nothing waits, nothing runs, nothing is kept. */
  clear(): Promise<void>;
  /** What the server does by itself some time after a table was filled. */
  analyze(): Promise<void>;
  close(): Promise<void>;
}

/** What becomes of a job that is done. */
export type Finished = "deleted" | "kept";

export interface PostgresContender {
  readonly name: string;
  readonly role: Role;
  readonly note?: string | undefined;
  readonly finished: Finished;
  readonly server: "postgres" | "redis";
  /** So much slower than the others that it gets no more jobs than this. */
  readonly atMost?: number;
  /** `concurrency`: how many jobs run at the same time in a process. Makes the tables if there are none. */
  readonly open: (url: string, concurrency: number) => Promise<Bench>;
}
