import { DuplicateJobError } from "../../core/errors.ts";
import type { Added, Idempotency, NewJob } from "../../storage/job-storage.ts";
import { refuseImpossible } from "../../storage/stored-rules.ts";
import type { Book } from "./book.ts";
import { NOWHERE } from "./heap.ts";
import type { Key } from "./queues.ts";
import { newJob } from "./stored-job.ts";

type Holder = Pick<Key, "key" | "id" | "fingerprint">;

/** Adds all jobs or none: everything that may fail is checked before the first is written. */
export function add(book: Book, jobs: readonly NewJob[], now: number): readonly Added[] {
  const keyed = jobs.some(({ idempotency }) => idempotency !== null);
  const made = keyed ? rehearse(book, jobs, now) : jobs;
  if (book.limits.weighs)
    refuseImpossible(
      book.limits.inForce,
      made.filter(({ id }) => !book.jobs.has(id)),
    );
  return jobs.map((job) => addOne(book, job, now));
}

function addOne(book: Book, job: NewJob, now: number): Added {
  if (book.jobs.has(job.id)) return { id: job.id, created: false };
  const { idempotency } = job;
  const queue = book.queue(job.queue);
  if (idempotency !== null) {
    const key = validKey(queue.keys.get(idempotency.key), now);
    if (key !== undefined) {
      const holder = book.jobs.get(key.id);
      if (answer(idempotency, key, job.id, holder?.state === "active") === "same")
        return { id: key.id, created: false };
      if (holder !== undefined && holder.finishedAt === null) book.delete(holder, now);
    }
    keep(book, job, idempotency, now);
  }
  const stored = newJob(job, book.nextSeq(), queue.counts, now, book.skew);
  book.jobs.set(stored.id, stored);
  queue.add(stored);
  book.enter(stored, now);
  book.subscribers.event({ event: "added", queue: stored.queue, id: stored.id, type: stored.type });
  return { id: stored.id, created: true };
}

/** Goes through all keys as adding would, and throws where that would fail. Answers with the jobs that would be made. */
function rehearse(book: Book, jobs: readonly NewJob[], now: number): readonly NewJob[] {
  const made: NewJob[] = [];
  /** Jobs that adding would make, or replace: are they there by then? */
  const there = new Map<string, boolean>();
  const taken = new Map<string, Map<string, Holder>>();
  for (const job of jobs) {
    const { id, queue, idempotency } = job;
    if (there.get(id) ?? book.jobs.has(id)) continue;
    if (idempotency !== null) {
      const { key, fingerprint } = idempotency;
      let ofQueue = taken.get(queue);
      if (ofQueue === undefined) taken.set(queue, (ofQueue = new Map()));
      const holder = ofQueue.get(key) ?? validKey(book.queues.get(queue)?.keys.get(key), now);
      if (holder !== undefined) {
        const other = book.jobs.get(holder.id);
        if (answer(idempotency, holder, id, other?.state === "active") === "same") continue;
        if ((other?.finishedAt ?? null) === null) there.set(holder.id, false);
      }
      ofQueue.set(key, { key, id, fingerprint });
    }
    there.set(id, true);
    made.push(job);
  }
  return made;
}

/** What to do with a job whose key another job has: return the other, or replace it. Throws if the job is to be rejected. */
function answer(
  { fingerprint, onDuplicate }: Idempotency,
  holder: Holder,
  id: string,
  active: boolean,
): "same" | "replace" {
  if (holder.id === id) return "same";
  let why = "duplicates are to be rejected";
  if (onDuplicate === "return") {
    if (holder.fingerprint === fingerprint) return "same";
    why = "its payload is another one";
  } else if (onDuplicate === "replace") {
    if (!active) return "replace";
    why = "it is active, and cannot be replaced";
  }
  throw new DuplicateJobError(holder.key, holder.id, why);
}

export function validKey(key: Key | undefined, now: number): Key | undefined {
  return key !== undefined && key.expiresAt > now ? key : undefined;
}

/** Gives the key to this job. */
function keep(book: Book, job: NewJob, { key, fingerprint, ttlMs }: Idempotency, now: number): void {
  const queue = book.queue(job.queue);
  const before = queue.keys.get(key);
  if (before !== undefined) book.keys.remove(before);
  const kept: Key = { queue, key, fingerprint, id: job.id, expiresAt: now + ttlMs, slot: NOWHERE };
  queue.keys.set(key, kept);
  book.keys.add(kept);
}
