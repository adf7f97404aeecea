import type { Duration } from "../core/duration.ts";
import { JobNotFoundError, OptionsError } from "../core/errors.ts";
import { type BackoffOption, JOB_DEFAULTS } from "../core/job-defaults.ts";
import type { JobKeys, JobState } from "../core/job.ts";
import { jobKeys, someKeys } from "../core/job-keys.ts";
import { anything, type Check, date, durationOrZero, optional, type OptionRule, readOptions } from "../core/options.ts";
import { nameText } from "../core/names.ts";
import type { JobStorage, JobUpdate } from "../storage/job-storage.ts";
import { deadline } from "./add-options.ts";
import { ofCall } from "./of-call.ts";

/**
 * Changes of a job that has not started, checked as `add` checks them. An option that is left out stays as it is; `null` removes it. At
 * least one is required.
 */
export interface UpdateOptions<Data = unknown> {
  /** The job starts no sooner than so long from now. It goes behind the jobs that are due by then. */
  readonly delay?: Duration | undefined;
  /** The job starts no sooner than this instant. */
  readonly runAt?: Date | undefined;
  readonly data?: Data | undefined;
  readonly priority?: number | undefined;
  readonly group?: string | null | undefined;
  /** All keys of the job: they replace those it has. */
  readonly keys?: JobKeys | null | undefined;
  readonly weights?: Readonly<Record<string, number>> | null | undefined;
  readonly maxAttempts?: number | undefined;
  readonly backoff?: BackoffOption | undefined;
  readonly timeout?: Duration | null | undefined;
  readonly deadline?: Duration | Date | null | undefined;
  readonly keepFor?: Duration | null | undefined;
}

/** Whether the job was updated. If not, it has started or ended, as `state` says, and was not changed. */
export type UpdateAnswer =
  | { readonly updated: true; readonly state: "waiting" | "scheduled" }
  | { readonly updated: false; readonly state: JobState };

/** An option that `null` removes. */
function clearable<T>({ expected, read }: Check<T>): OptionRule<T | null | undefined> {
  return optional(
    { expected: `${expected}, or null`, read: (value) => (value === null ? null : read(value)) },
    undefined,
  );
}

const unless = <T>({ check }: OptionRule<T>): OptionRule<T | undefined> => optional(check);

const OPTIONS = {
  delay: optional(durationOrZero),
  runAt: optional(date),
  // The queue checks it by schema and size.
  data: optional(anything),
  priority: unless(JOB_DEFAULTS.priority),
  group: clearable(nameText),
  keys: clearable(jobKeys),
  weights: clearable(JOB_DEFAULTS.weights.check),
  maxAttempts: unless(JOB_DEFAULTS.maxAttempts),
  backoff: unless(JOB_DEFAULTS.backoff),
  timeout: clearable(JOB_DEFAULTS.timeout.check),
  deadline: clearable(deadline),
  keepFor: clearable(JOB_DEFAULTS.keepFor.check),
};

/** The values to set; `data` is JSON text already. */
export function readUpdate(options: UpdateOptions, data: string | undefined): JobUpdate["set"] {
  const { delay, runAt, data: _, keys: givenKeys, ...read } = readOptions("update", OPTIONS, options);
  if (delay !== undefined && runAt !== undefined) {
    throw new OptionsError("update", "runAt", runAt, "left out where there is a `delay`");
  }
  const due = runAt === undefined ? (delay === undefined ? undefined : { inMs: delay }) : { at: runAt.getTime() };
  const keys = givenKeys === undefined ? undefined : (someKeys(givenKeys) ?? null);
  const set = Object.entries({ ...read, keys, due, data }).filter(([, value]) => value !== undefined);
  if (set.length === 0) {
    throw new OptionsError(
      "update",
      "options",
      options,
      `an object with at least one of ${Object.keys(OPTIONS).join(", ")}`,
    );
  }
  return Object.fromEntries(set);
}

/** Updates one job. */
export async function updateOne(
  storage: JobStorage,
  queue: string,
  id: string,
  set: JobUpdate["set"],
): Promise<UpdateAnswer> {
  const { updated, state } = await storage.update({ queue, id, set }).catch((error: unknown) => {
    throw ofCall("update", error);
  });
  if (state === null) throw new JobNotFoundError(id);
  return { updated, state } as UpdateAnswer;
}
