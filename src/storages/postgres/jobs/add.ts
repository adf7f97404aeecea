import { DuplicateJobError } from "../../../core/errors.ts";
import type { Added, NewJob, When } from "../../../storage/job-storage.ts";
import { textOfKeys } from "../../../storage/kept.ts";
import { tooHeavy } from "../../../storage/stored-rules.ts";
import type { Caller, Once, Steps } from "../database.ts";
import { sqlStateOf } from "../failures.ts";
import type { StepHints } from "../step-hints.ts";

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
export interface AddAnswer extends StepHints {
  readonly refused?: Refused;
  /** Those that were not added: their numbers, and the ids that there are instead. */
  readonly others?: readonly (readonly [no: number, id: string])[] | null;
}

/** What stands between texts that are sent as one: it is in no JSON, and hardly in an id. */
const SEPARATOR = "\u001F";
const UNIQUE_VIOLATION = "23505";

/** Adds jobs: all of them or none. `teller`: the storage that adds, if it may notify others inside the transaction. */
export async function add(database: Steps, jobs: readonly NewJob[], teller: string | null): Promise<Added[]> {
  if (jobs.length === 0) return [];
  const once = onceFor(jobs);
  const generally = (repeated: boolean) => database.once<AddAnswer>("add", [addArgument(jobs), repeated], once);
  const answer = await (
    isUniform(jobs)
      ? database.once<AddAnswer>("add_uniform", [...textsOf(jobs), ...Object.values(columnsOf(jobs[0]!)), teller], once)
      : generally(false)
  ).catch((error: unknown) => {
    // One of them is there already, or comes twice. Nothing was added, and it is looked for which.
    if (sqlStateOf(error) !== UNIQUE_VIOLATION) throw error;
    return generally(true);
  });
  return addedFrom(jobs, answer);
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

/** Adds jobs in a transaction of the user; other processes are notified when it is committed. */
export async function addInside(database: Caller, jobs: readonly NewJob[]): Promise<Added[]> {
  if (jobs.length === 0) return [];
  return addedFrom(jobs, await database.call<AddAnswer>("add_inside", addArgument(jobs)));
}

/** What the function `add` takes. */
export function addArgument(jobs: readonly NewJob[]): string {
  const [ids, data, separator] = textsOf(jobs);
  const { kinds, kindOf } = kindsOf(jobs);
  const idempotency = jobs.some((job) => job.idempotency !== null) ? jobs.map(keyOf) : undefined;
  return JSON.stringify({ ids, data, separator, kinds, kind_of: kinds.length === 1 ? undefined : kindOf, idempotency });
}

/** The ids and the data, as one text each, and what stands between them. */
export function textsOf(jobs: readonly NewJob[]): readonly [ids: string, data: string, separator: string] {
  const ids = jobs.map(({ id }) => id);
  const separator = separatorFor(ids);
  return [ids.join(separator), jobs.map(({ data }) => data).join(separator), separator];
}

/** A text that is in none of the ids, nor across two of them. */
function separatorFor(ids: readonly string[]): string {
  let separator = SEPARATOR;
  if (!ids.some((id) => id.includes(SEPARATOR))) return separator;
  for (let n = 0; ids.join(separator).split(separator).length !== ids.length; n++) {
    separator = `${SEPARATOR}${n}${SEPARATOR}`;
  }
  return separator;
}

/** What jobs have in common, each once, and the number of each job among these, from 1. */
function kindsOf(jobs: readonly NewJob[]): { readonly kinds: readonly object[]; readonly kindOf: readonly number[] } {
  const [first] = jobs;
  const kinds: object[] = [];
  const numbers = new Map<string, number>();
  const kindOf = jobs.map((job, i) => {
    if (i > 0 && isAlike(job, first!)) return 1;
    const kind = { ...columnsOf(job), weights: job.weights };
    const text = JSON.stringify(kind);
    const number = numbers.get(text) ?? kinds.push(kind);
    numbers.set(text, number);
    return number;
  });
  return { kinds, kindOf };
}

/** In the order in which the function `add_uniform` takes them. */
export const columnsOf = ({
  queue,
  type,
  due,
  priority,
  group,
  keys,
  weights,
  maxAttempts,
  backoff,
  timeout,
  deadline,
  keepFor,
}: NewJob) => ({
  queue,
  type,
  due: instantOf(due),
  due_in: delayOf(due),
  priority,
  grp: group,
  keys: keys === undefined ? null : textOfKeys(keys),
  weights: weights === null ? null : JSON.stringify(weights),
  max_attempts: maxAttempts,
  backoff: JSON.stringify(backoff),
  timeout,
  deadline: instantOf(deadline),
  deadline_in: delayOf(deadline),
  keep_for: keepFor,
});
const instantOf = (when: When | null): number | null => (when !== null && "at" in when ? when.at : null);
const delayOf = (when: When | null): number | null => (when !== null && "inMs" in when ? when.inMs : null);

const keyOf = ({ id, queue, idempotency }: NewJob) =>
  idempotency === null
    ? {}
    : {
        id,
        queue,
        key: idempotency.key,
        fingerprint: idempotency.fingerprint,
        ttl: idempotency.ttlMs,
        on_duplicate: idempotency.onDuplicate,
      };

/** Do they differ in nothing but their ids and data? */
function isUniform(jobs: readonly NewJob[]): boolean {
  const [first] = jobs;
  return first!.id !== "" && jobs.every((job) => job.idempotency === null && isAlike(job, first!));
}

/** Is it the same as the other, but for its id, data and key? If in doubt, no. */
function isAlike(job: NewJob, other: NewJob): boolean {
  return (
    job === other ||
    (job.queue === other.queue &&
      job.type === other.type &&
      job.priority === other.priority &&
      job.group === other.group &&
      job.keys === other.keys &&
      job.maxAttempts === other.maxAttempts &&
      job.timeout === other.timeout &&
      job.keepFor === other.keepFor &&
      job.weights === other.weights &&
      isSameTime(job.due, other.due) &&
      (job.deadline === other.deadline ||
        (job.deadline !== null && other.deadline !== null && isSameTime(job.deadline, other.deadline))) &&
      (job.backoff === other.backoff || JSON.stringify(job.backoff) === JSON.stringify(other.backoff)))
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

/** Throws what a refusal means; none means nothing. */
export function throwRefused(refused: Refused | undefined): void {
  if (refused?.why === "key") throw new DuplicateJobError(refused.key, refused.id, refused.because);
  if (refused !== undefined) throw tooHeavy(refused.rule, refused.weight, refused.said, refused.most);
}
