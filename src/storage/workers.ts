/** What a worker says of itself when it registers. */
export interface WorkerEntry {
  /** A name that no other worker has, ever: the one that it claims with. */
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
  /** One of these workers has been running for the longest of all: its process watches for unhandled types. */
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

/** A worker with more types than are listed may handle any: what is not known is not said to be missing. */
export function handles({ types, moreTypes }: Handling, type: string): boolean {
  return types === null || moreTypes > 0 || types.includes(type);
}

export function workersFor(workers: readonly Handling[], type: string): WorkerCounts {
  return { live: workers.length, handling: workers.filter((one) => handles(one, type)).length };
}

/** The types of a queue of which jobs wait, and what of the queue is paused ('' for all of it, ':' and the type for one). */
export interface WaitingTypes {
  readonly queue: string;
  readonly types: readonly string[];
  readonly pauses: readonly string[];
}

/** So many types are told of at once. */
const MOST_UNHANDLED = 1_000;

/** What waits, is not paused, and has no live worker. */
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

/** Since when, then by id: the order in which workers are shown, and the first of which watches. */
export function bySince(a: WorkerRecord, b: WorkerRecord): number {
  return a.since - b.since || (a.id < b.id ? -1 : 1);
}

/** As people see it: by the wall clock, which the clock of the storage is ahead of by `skew`. */
export function wallWorker(worker: WorkerRecord, skew: number): WorkerRecord {
  return { ...worker, since: worker.since - skew, seenAt: worker.seenAt - skew };
}

/** What of an entry is kept as it is: all but what the storage itself has columns for. */
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
