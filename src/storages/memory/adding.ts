import { DuplicateJobError } from "../../core/errors.ts";
import type { Added, Idempotency, NewJob } from "../../storage/job-storage.ts";
import { refuseImpossible } from "../../storage/stored-rules.ts";
import type { Book } from "./book.ts";
import { NOWHERE } from "./heap.ts";
import type { Key, MemoryQueue } from "./queues.ts";
import { newJob } from "./stored-job.ts";

type Holder = Pick<Key, "key" | "id" | "fingerprint">;

/** Adds all jobs or none: everything that may fail is checked before the first is written. */
export function add(book: Book, jobs: readonly NewJob[], now: number): readonly Added[] {
  const { jobs: known, limits } = book;
  const keyed = jobs.some(({ idempotency }) => idempotency !== null);
  const earlier = keyed ? earlierJobs(book, jobs, now) : undefined;
  const idOf = ({ id }: NewJob, i: number) => earlier?.[i] ?? (known.has(id) ? id : undefined);
  if (limits.weighs) {
    refuseImpossible(
      limits.inForce,
      jobs.filter((job, i) => idOf(job, i) === undefined),
    );
  }
  return jobs.map((job, i) => {
    const id = idOf(job, i);
    return id === undefined ? addOne(book, job, now) : { id, created: false };
  });
}

function addOne(book: Book, job: NewJob, now: number): Added {
  const queue = book.queue(job.queue);
  if (job.idempotency !== null) takeKey(book, queue, job.id, job.idempotency, now);
  const stored = newJob(job, book.nextSeq(), queue.counts, now, book.skew);
  book.jobs.set(stored.id, stored);
  queue.add(stored);
  book.enter(stored, now);
  book.subscribers.event({ event: "added", queue: stored.queue, id: stored.id, type: stored.type });
  return { id: stored.id, created: true };
}

/**
 * For each job the id of an earlier job that is returned in its place, be it stored or before it among `jobs`; undefined: it is added.
 * Throws if a job is to be rejected.
 */
function earlierJobs(book: Book, jobs: readonly NewJob[], now: number): (string | undefined)[] {
  /** Will the job exist when the next is added? Only of those that this call adds or replaces. */
  const exists = new Map<string, boolean>();
  const keys = new Map<string, Map<string, Holder>>();
  return jobs.map(({ id, queue, idempotency }) => {
    if (exists.get(id) ?? book.jobs.has(id)) return id;
    if (idempotency !== null) {
      const { key, fingerprint } = idempotency;
      let ofQueue = keys.get(queue);
      if (ofQueue === undefined) keys.set(queue, (ofQueue = new Map()));
      const holder = ofQueue.get(key) ?? validKey(book.queues.get(queue)?.keys.get(key), now);
      if (holder !== undefined) {
        const other = book.jobs.get(holder.id);
        if (!replaces(idempotency, holder, id, other?.state === "active")) return holder.id;
        if ((other?.finishedAt ?? null) === null) exists.set(holder.id, false);
      }
      ofQueue.set(key, { key, id, fingerprint });
    }
    exists.set(id, true);
    return undefined;
  });
}

/** Does a job replace the one that has its key? If not, that one is returned in its place. Throws if the job is to be rejected. */
function replaces({ fingerprint, onDuplicate }: Idempotency, holder: Holder, id: string, active: boolean): boolean {
  if (holder.id === id) return false;
  let why = "duplicates are to be rejected";
  if (onDuplicate === "return") {
    if (holder.fingerprint === fingerprint) return false;
    why = "its payload is another one";
  } else if (onDuplicate === "replace") {
    if (!active) return true;
    why = "it is active, and cannot be replaced";
  }
  throw new DuplicateJobError(holder.key, holder.id, why);
}

export function validKey(key: Key | undefined, now: number): Key | undefined {
  return key !== undefined && key.expiresAt > now ? key : undefined;
}

/** Gives the key to this job. The job that had it is deleted, unless it has ended. */
function takeKey(book: Book, queue: MemoryQueue, id: string, idempotency: Idempotency, now: number): void {
  const { key, fingerprint, ttlMs } = idempotency;
  const before = queue.keys.get(key);
  const holder = before && validKey(before, now) && book.jobs.get(before.id);
  if (holder !== undefined && holder.finishedAt === null) book.delete(holder, now);
  if (before !== undefined) book.keys.remove(before);
  const kept: Key = { queue, key, fingerprint, id, expiresAt: now + ttlMs, slot: NOWHERE };
  queue.keys.set(key, kept);
  book.keys.add(kept);
}
