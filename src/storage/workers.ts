/** What a worker registers about itself. */
export interface WorkerEntry {
  /** Unique among all workers, for ever: the id that it claims with. */
  readonly id: string;
  readonly queue: string;
  /** The name of its machine, and the number of its process there. null: not known, as in a browser. */
  readonly host: string | null;
  readonly pid: number | null;
  /** The types that it handles, up to a thousand of them; null: one function for all types. */
  readonly types: readonly string[] | null;
  /** How many more types it handles than are listed. */
  readonly moreTypes: number;
  /** How many jobs it runs at a time. */
  readonly concurrency: number;
  /** The names of the shared limits that it declares, up to a thousand of them. */
  readonly limits: readonly string[];
  /** How many more limits it declares than are listed. */
  readonly moreLimits: number;
  /** How long it has been running. */
  readonly upMs: number;
}

/** A live worker, as the storage shows it. */
export interface WorkerRecord extends Omit<WorkerEntry, "upMs"> {
  /** When it began. This and `seenAt` are measured by the storage's clock, and shown as wall time. */
  readonly since: number;
  /** Its latest heartbeat. */
  readonly seenAt: number;
}

/** What the storage answers to a registration. */
export interface Registered {
  /** One of these workers is the oldest of all: its process watches for unhandled types. */
  readonly first: boolean;
}

/** Jobs of a type wait, and no live worker handles them. */
export interface UnhandledType {
  readonly queue: string;
  readonly type: string;
}

/** How many live workers a queue has, and how many of these handle a type. */
export interface WorkerCounts {
  readonly live: number;
  readonly handling: number;
}

type Handling = Pick<WorkerEntry, "types" | "moreTypes">;

/** A worker with more types than are listed may handle any: an unlisted type is not reported as unhandled. */
export function handles({ types, moreTypes }: Handling, type: string): boolean {
  return types === null || moreTypes > 0 || types.includes(type);
}

export function workersFor(workers: readonly Handling[], type: string): WorkerCounts {
  return { live: workers.length, handling: workers.filter((one) => handles(one, type)).length };
}

/** The types of a queue that have waiting jobs, and its pauses ('' for the queue, ':' and the type for one type). */
export interface WaitingTypes {
  readonly queue: string;
  readonly types: readonly string[];
  readonly pauses: readonly string[];
}

/** At most so many types are returned. */
const MOST_UNHANDLED = 1_000;

/** The types that have waiting jobs, are not paused, and have no live worker. */
export function unhandledOf(waiting: readonly WaitingTypes[], workers: readonly WorkerRecord[]): UnhandledType[] {
  const byQueue = Map.groupBy(workers, ({ queue }) => queue);
  const unhandled: UnhandledType[] = [];
  for (const { queue, types, pauses } of waiting) {
    if (pauses.includes("")) continue;
    const own = byQueue.get(queue) ?? [];
    const open = own.some(({ types: listed, moreTypes }) => listed === null || moreTypes > 0);
    if (open) continue;
    const handled = new Set(own.flatMap(({ types: listed }) => listed ?? []));
    for (const type of types) if (!handled.has(type) && !pauses.includes(`:${type}`)) unhandled.push({ queue, type });
  }
  return unhandled.slice(0, MOST_UNHANDLED);
}

/** By `since`, then by id: the order in which workers are shown. The process of the first one watches for unhandled types. */
export function bySince(a: WorkerRecord, b: WorkerRecord): number {
  return a.since - b.since || (a.id < b.id ? -1 : 1);
}

/** The worker with wall time: the clock of the storage is ahead of the wall clock by `skew`. */
export function wallWorker(worker: WorkerRecord, skew: number): WorkerRecord {
  return { ...worker, since: worker.since - skew, seenAt: worker.seenAt - skew };
}

/** The fields of an entry that have no column of their own. */
export type WorkerDetails = Omit<WorkerEntry, "id" | "queue" | "upMs">;

export function detailsOf({
  host,
  pid,
  types,
  moreTypes,
  concurrency,
  limits,
  moreLimits,
}: WorkerEntry): WorkerDetails {
  return { host, pid, types, moreTypes, concurrency, limits, moreLimits };
}

/** A worker as a table keeps it. `info`: JSON text. */
export interface WorkerRow {
  readonly id: string;
  readonly queue: string;
  readonly info: string;
  readonly since: number;
  readonly seenAt: number;
}

export function workerOf({ id, queue, info, since, seenAt }: WorkerRow): WorkerRecord {
  return { id, queue, ...(JSON.parse(info) as WorkerDetails), since, seenAt };
}
