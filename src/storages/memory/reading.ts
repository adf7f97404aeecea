import { OptionsError } from "../../core/errors.ts";
import type { JobRecord } from "../../core/job.ts";
import type { Ending, Endings, JobHistory, JobPage, ListQuery, QueueOverview } from "../../storage/job-storage.ts";
import { PageRoom } from "../../storage/step-bytes.ts";
import { type UnhandledType, unhandledOf, type WaitingTypes } from "../../storage/workers.ts";
import { validKey } from "./adding.ts";
import type { Book } from "./book.ts";
import type { StoredJob } from "./lanes.ts";
import type { MemoryQueue } from "./queues.ts";
import { copyOf } from "./stored-job.ts";

export function find(book: Book, ids: readonly string[], now: number): (JobRecord | undefined)[] {
  return ids.map((id) => {
    const job = book.jobs.get(id);
    if (job === undefined) return undefined;
    if (job.state === "scheduled" && job.dueAt <= now) book.promote(book.queue(job.queue).line(job.type), now);
    return copyOf(job, book.skew);
  });
}

/** The job that has the key. */
export function findByKey(book: Book, queue: string, key: string, now: number): JobRecord | undefined {
  const holder = validKey(book.queues.get(queue)?.keys.get(key), now);
  return holder && find(book, [holder.id], now)[0];
}

export function endings(book: Book, ids: readonly string[]): Endings {
  const ended = ids.flatMap((id) => endingOf(id, book.jobs.get(id)) ?? []);
  return { ended, more: false };
}

function endingOf(id: string, job: StoredJob | undefined): Ending | undefined {
  if (job === undefined) return { id, state: "gone" };
  const { state, result, error } = job;
  if (state === "completed") return { id, state, result };
  if (state === "dead") return { id, state, error };
  return state === "cancelled" ? { id, state } : undefined;
}

export function history(book: Book, id: string): JobHistory {
  const job = book.jobs.get(id);
  const { skew } = book;
  return {
    attempts: (job?.attempts ?? []).map(({ attempt, startedAt, endedAt, worker, error }) => ({
      attempt,
      startedAt: startedAt - skew,
      endedAt: endedAt - skew,
      worker,
      error,
    })),
    log: (job?.log ?? []).map(({ at, attempt, text }) => ({ at: at - skew, attempt, text })),
  };
}

/** Newest first. The cursor is the `seq` of the last job on the page before. */
export function list(book: Book, query: ListQuery, now: number): JobPage {
  const before = query.cursor === null ? Number.POSITIVE_INFINITY : readCursor(query.cursor);
  const queue = book.queues.get(query.queue);
  const jobs: JobRecord[] = [];
  if (queue === undefined) return { jobs, cursor: null };
  book.promoteAll(queue, now);
  const page = new PageRoom();
  let last = 0;
  for (let i = countBefore(queue.added, before) - 1; i >= 0; i--) {
    const job = queue.added[i]!;
    if (job.gone || !matches(job, query, book.skew)) continue;
    if (jobs.length === query.limit || !page.take(job)) return { jobs, cursor: String(last) };
    jobs.push(copyOf(job, book.skew));
    last = job.seq;
  }
  return { jobs, cursor: null };
}

export function overview(book: Book, name: string | undefined, now: number): QueueOverview[] {
  const queues = name === undefined ? [...book.queues.values()] : [book.queues.get(name)];
  return queues
    .filter((queue) => queue?.exists === true)
    .map((queue) => overviewOf(book, queue!, now))
    .toSorted((a, b) => (a.queue < b.queue ? -1 : 1));
}

function overviewOf(book: Book, queue: MemoryQueue, now: number): QueueOverview {
  book.promoteAll(queue, now);
  let oldest: number | undefined;
  for (const line of queue.lines.values()) {
    for (const { first } of line.lanes()) if (oldest === undefined || first!.dueAt < oldest) oldest = first!.dueAt;
  }
  return {
    queue: queue.name,
    counts: { ...queue.counts },
    paused: queue.paused,
    pausedTypes: [...queue.pausedTypes].toSorted((a, b) => (a < b ? -1 : 1)),
    oldestWaitingMs: oldest === undefined ? null : now - oldest,
  };
}

export function unhandled(book: Book, now: number): UnhandledType[] {
  const waiting: WaitingTypes[] = [];
  for (const queue of book.queues.values()) {
    book.promoteAll(queue, now);
    const types = [...queue.lines.values()].filter((line) => line.waiting > 0).map(({ type }) => type);
    const pauses = [...(queue.paused ? [""] : []), ...Array.from(queue.pausedTypes, (type) => `:${type}`)];
    waiting.push({ queue: queue.name, types: types.toSorted(), pauses });
  }
  return unhandledOf(
    waiting.toSorted((a, b) => (a.queue < b.queue ? -1 : 1)),
    book.workers.live(now),
  );
}

function readCursor(cursor: string): number {
  const seq = /^[1-9]\d{0,15}$/.test(cursor) ? Number(cursor) : Number.NaN;
  if (!Number.isSafeInteger(seq)) {
    throw new OptionsError("MemoryStorage", "cursor", cursor, "the cursor of a page, or null");
  }
  return seq;
}

/** How many jobs were added before this one. */
function countBefore(added: readonly StoredJob[], seq: number): number {
  let low = 0;
  let high = added.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (added[middle]!.seq < seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

function matches(job: StoredJob, { states, type, group, since, until }: ListQuery, skew: number): boolean {
  const createdAt = job.createdAt - skew;
  return (
    (states === null || states.includes(job.state)) &&
    (type === null || job.type === type) &&
    (group === null || job.group === group) &&
    (since === null || createdAt >= since) &&
    (until === null || createdAt < until)
  );
}
