import type { WorkerRecord } from "../storage/workers.ts";

/** A live worker: it runs, or was killed less than 45 s ago. */
export interface WorkerInfo {
  /** The same as `Worker.id`, and as the `worker` of its jobs. */
  readonly id: string;
  readonly queue: string;
  /** The name of its machine, and the number of its process there. undefined: not known, as in a browser. */
  readonly host: string | undefined;
  readonly pid: number | undefined;
  /** The types that it handles, up to a thousand of them. undefined: one function for all types. */
  readonly types: readonly string[] | undefined;
  /** How many more types it handles than are listed. */
  readonly moreTypes: number;
  /** How many calls of a handler it runs at the same time. */
  readonly concurrency: number;
  /** The names of the shared limits that it declares, up to a thousand of them. */
  readonly limits: readonly string[];
  /** How many more limits it declares than are listed. */
  readonly moreLimits: number;
  /** When it began, by the storage's clock. */
  readonly since: Date;
  /** Its latest heartbeat, by the storage's clock; there is one every 15 s. */
  readonly lastSeen: Date;
}

export function workerInfoOf({ host, pid, types, since, seenAt, ...rest }: WorkerRecord): WorkerInfo {
  return {
    ...rest,
    host: host ?? undefined,
    pid: pid ?? undefined,
    types: types ?? undefined,
    since: new Date(since),
    lastSeen: new Date(seenAt),
  };
}
