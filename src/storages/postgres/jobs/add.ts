import { DuplicateJobError } from "../../../core/errors.ts";
import type { Added, NewJob, When } from "../../../storage/job-storage.ts";
import { tooHeavy } from "../../../storage/stored-rules.ts";
import type { Caller, Once, Steps } from "../database.ts";
import { sqlStateOf } from "../failures.ts";
import type { Told } from "../told.ts";

/** Why nothing was added. */
export type Refused =
  | { readonly why: "key"; readonly key: string; readonly id: string; readonly because: string }
  | {
      readonly why: "weight";
      readonly rule: string;
      readonly weight: string;
      readonly said: number;
      readonly most: number;
    };

/** What the functions that add answer. */
export interface AddAnswer extends Told {
  readonly refused?: Refused;
  /** Those that were not added: their numbers, and the ids that there are instead. */
  readonly others?: readonly (readonly [no: number, id: string])[] | null;
}

/** What stands between texts that are sent as one: it is in no JSON. */
const BETWEEN = "\u001F";
const UNIQUE_VIOLATION = "23505";

/**
 * Adds jobs: all of them or none, by the shortest way there is for them. `teller`: who may tell others of it from inside of
 * the transaction.
 */
export async function add(database: Steps, jobs: readonly NewJob[], teller: string | null): Promise<Added[]> {
  const quickly = quick(database, jobs, teller);
  if (quickly !== undefined) {
    try {
      return addedFrom(jobs, await quickly);
    } catch (error) {
      // One of them is there already, or comes twice. Nothing was added, and it is looked for which.
      if (sqlStateOf(error) !== UNIQUE_VIOLATION) throw error;
    }
  }
  return addedFrom(jobs, await database.once<AddAnswer>("add", [addArgument(jobs)], onceFor(jobs)));
}

/**
 * That a job was added is known by its id, as long as it is there. Where one may be gone before a repeat, or an attempt that arrives
 * late, could find it, the answer is kept.
 */
const onceFor = (jobs: readonly NewJob[]): Once<AddAnswer> => ({
  as: jobs.some(({ keepFor }) => keepFor !== null && keepFor < LONG_MS) ? "kept" : "known",
});
/** So long no statement stays in a network (sql/steps.sql: begin_attempt). */
const LONG_MS = 3_600_000;

/** Adds jobs in a transaction of the user's; others hear of it when that is committed. */
export async function addInside(database: Caller, jobs: readonly NewJob[]): Promise<Added[]> {
  return addedFrom(jobs, await database.call<AddAnswer>("add", addArgument(jobs), true));
}

/** One job, or several that are alike: no JSON has to be read for each. */
function quick(database: Steps, jobs: readonly NewJob[], teller: string | null): Promise<AddAnswer> | undefined {
  const [first] = jobs;
  if (first === undefined || first.idempotency !== null) return undefined;
  const backoff = JSON.stringify(first.backoff);
  if (jobs.length === 1) {
    const { due, deadline, weights, queue, type, priority, group, timeout } = first;
    const args = [
      first.id,
      first.data,
      queue,
      type,
      instantOf(due),
      delayOf(due),
      priority,
      group,
      weights === null ? null : JSON.stringify(weights),
      first.maxAttempts,
      backoff,
      timeout,
      instantOf(deadline),
      delayOf(deadline),
      first.keepFor,
      teller,
    ];
    return database.once<AddAnswer>("add_one", args, onceFor(jobs));
  }
  if (!jobs.every((job) => isAlike(job, first) && !job.id.includes(BETWEEN) && !job.data.includes(BETWEEN))) {
    return undefined;
  }
  const ids = jobs.map(({ id }) => id).join(BETWEEN);
  const data = jobs.map((job) => job.data).join(BETWEEN);
  const args = [ids, data, JSON.stringify(columnsOf(first, backoff)), teller];
  return database.once<AddAnswer>("add_many", args, onceFor([first]));
}

const instantOf = (when: When | null): number | null => (when !== null && "at" in when ? when.at : null);
const delayOf = (when: When | null): number | null => (when !== null && "inMs" in when ? when.inMs : null);

/** What the function `add` takes: the columns of each job that are not empty. What all of them have alike is said once. */
export function addArgument(jobs: readonly NewJob[]): string {
  const [first] = jobs;
  if (first !== undefined && jobs.every((job) => isAlike(job, first))) {
    return JSON.stringify({
      ids: jobs.map(({ id }) => id),
      data: jobs.map(({ data }) => data),
      ...columnsOf(first, JSON.stringify(first.backoff)),
    });
  }
  const texts = new Map<object, string>();
  return JSON.stringify(
    jobs.map((job) => ({
      id: job.id,
      data: job.data,
      ...columnsOf(job, textOf(job.backoff, texts)),
      ...(job.idempotency !== null && {
        key: job.idempotency.key,
        fingerprint: job.idempotency.fingerprint,
        ttl: job.idempotency.ttlMs,
        on_duplicate: job.idempotency.onDuplicate,
      }),
    })),
  );
}

/** What several jobs may have in common. */
const columnsOf = (job: NewJob, backoff: string) => ({
  queue: job.queue,
  type: job.type,
  ...("at" in job.due ? { due: job.due.at } : { due_in: job.due.inMs }),
  priority: job.priority,
  grp: job.group ?? undefined,
  weights: job.weights ?? undefined,
  max_attempts: job.maxAttempts,
  backoff,
  timeout: job.timeout ?? undefined,
  ...(job.deadline !== null && deadlineOf(job.deadline)),
  keep_for: job.keepFor ?? undefined,
});

/** Is it the same as the other, but for its id and data? If in doubt, no. */
function isAlike(job: NewJob, other: NewJob): boolean {
  return (
    job.idempotency === null &&
    job.queue === other.queue &&
    job.type === other.type &&
    job.priority === other.priority &&
    job.group === other.group &&
    job.maxAttempts === other.maxAttempts &&
    job.timeout === other.timeout &&
    job.keepFor === other.keepFor &&
    job.weights === other.weights &&
    isSameTime(job.due, other.due) &&
    (job.deadline === other.deadline ||
      (job.deadline !== null && other.deadline !== null && isSameTime(job.deadline, other.deadline))) &&
    (job.backoff === other.backoff || JSON.stringify(job.backoff) === JSON.stringify(other.backoff))
  );
}

function isSameTime(when: When, other: When): boolean {
  if (when === other) return true;
  return "at" in when ? "at" in other && when.at === other.at : "inMs" in other && when.inMs === other.inMs;
}

/** What became of the jobs. Throws, if something was refused. */
export function addedFrom(jobs: readonly NewJob[], { refused, others }: AddAnswer): Added[] {
  throwRefused(refused);
  const added: Added[] = jobs.map(({ id }) => ({ id, created: true }));
  for (const [no, id] of others ?? []) added[no] = { id, created: false };
  return added;
}

const deadlineOf = (when: When) => ("at" in when ? { deadline: when.at } : { deadline_in: when.inMs });

/** Jobs that are added together often share their plan: it is written as text once. */
function textOf(value: object, texts: Map<object, string>): string {
  let text = texts.get(value);
  if (text === undefined) texts.set(value, (text = JSON.stringify(value)));
  return text;
}

/** Throws what a refusal means; none means nothing. */
export function throwRefused(refused: Refused | undefined): void {
  if (refused?.why === "key") throw new DuplicateJobError(refused.key, refused.id, refused.because);
  if (refused !== undefined) throw tooHeavy(refused.rule, refused.weight, refused.said, refused.most);
}
