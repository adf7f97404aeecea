import type { Clock } from "../core/clock.ts";
import type { Duration } from "../core/duration.ts";
import { OptionsError } from "../core/errors.ts";
import { ENDED, JOB_STATES, type JobState } from "../core/job.ts";
import { keyText } from "../core/names.ts";
import { type Check, durationOrZero, fn, optional, readOptions, required, signal, yes } from "../core/options.ts";
import type { ChangeAction, ChangeFilter, JobStorage } from "../storage/job-storage.ts";

/** Options of a change of many jobs. The change is made in small steps, and completed steps are not undone. */
export interface FollowOptions {
  /** Is called after every step with the number of jobs changed so far. */
  readonly onProgress?: ((changed: number) => void) | undefined;
  /** Stops between two steps, with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

/** Which jobs, of those that have not started: all, of a type, of a group, or the one that has an idempotency key. */
export interface DrainOptions extends FollowOptions {
  readonly type?: string | undefined;
  readonly group?: string | undefined;
  /** Only the job that has this idempotency key now. */
  readonly idempotencyKey?: string | undefined;
}

/** Which jobs. At least one of these is required. */
export interface ChangeAllOptions extends DrainOptions {
  /** Only jobs in this state, or one of these. Default: all that the change applies to. */
  readonly state?: JobState | readonly JobState[] | undefined;
  /** Required if no other filter is given. */
  readonly all?: true | undefined;
}

/** Which of the dead jobs: one, some, or all (of a type, of a group). */
export type RedriveTarget =
  | string
  | readonly string[]
  | ({
      readonly all: true;
      readonly type?: string | undefined;
      readonly group?: string | undefined;
    } & FollowOptions);

export interface PurgeOptions extends FollowOptions {
  /** Only jobs in this state, or one of these. Default: all that have ended. */
  readonly state?: JobState | readonly JobState[] | undefined;
  /** Only jobs that ended longer ago than this. */
  readonly olderThan?: Duration | undefined;
  readonly type?: string | undefined;
  readonly group?: string | undefined;
  /** Required if no other filter is given. */
  readonly all?: true | undefined;
}

/** Where the jobs are. */
interface Place {
  readonly storage: JobStorage;
  readonly queue: string;
  readonly clock: Clock;
}

/** How many jobs are changed in one step: small steps let other calls come in between. */
const STEP = 500;

export const states: Check<readonly JobState[]> = {
  expected: `one of ${JOB_STATES.join(", ")}, or an array of them`,
  read: (value) => {
    const list: readonly unknown[] = Array.isArray(value) ? value : [value];
    const known = list.every((state) => JOB_STATES.includes(state as JobState));
    return known && list.length > 0 ? (list as readonly JobState[]) : undefined;
  },
};
export const anyText: Check<string> = {
  expected: "a string",
  read: (value) => (typeof value === "string" ? value : undefined),
};
const FOLLOW = { onProgress: optional(fn), signal: optional(signal) };
const OF = { ...FOLLOW, type: optional(anyText), group: optional(anyText) };
const DRAIN = { ...OF, idempotencyKey: optional(keyText) };
const CHANGE_ALL = { ...DRAIN, state: optional(states), all: optional(yes) };
const REDRIVE = { ...OF, all: required(yes) };
const PURGE = {
  ...OF,
  state: optional(states),
  olderThan: optional(durationOrZero),
  all: optional(yes),
};

/** The states that a filter can name. */
const NOT_STARTED: readonly JobState[] = ["waiting", "scheduled", "awaiting"];
const CANCELLABLE: readonly JobState[] = [...NOT_STARTED, "active"];
const REMOVABLE: readonly JobState[] = [...NOT_STARTED, ...ENDED];

/** See `Queue.cancelAll`. */
export function cancelAll(place: Place, options: ChangeAllOptions): Promise<number> {
  return changeWanted(place, "cancelAll", "cancel", CANCELLABLE, readOptions("cancelAll", CHANGE_ALL, options));
}

/** See `Queue.removeAll`. */
export function removeAll(place: Place, options: ChangeAllOptions): Promise<number> {
  return changeWanted(place, "removeAll", "remove", REMOVABLE, readOptions("removeAll", CHANGE_ALL, options));
}

/** See `Queue.drain`. */
export function drainQueue(place: Place, options: DrainOptions): Promise<number> {
  return changeWanted(place, "drain", "remove", NOT_STARTED, { ...readOptions("drain", DRAIN, options), all: true });
}

/** See `Queue.redrive`. */
export async function redrive(place: Place, target: RedriveTarget): Promise<number> {
  const { storage, queue } = place;
  if (typeof target === "string" || Array.isArray(target)) {
    const ids = [target].flat().map((id: unknown) => readId(id));
    return (await storage.change({ action: "retry", queue, ids, states: ["dead"] })).length;
  }
  const read = readOptions("redrive", REDRIVE, target);
  return changeAll(place, "retry", whereOf(["dead"], read), read);
}

/** See `Queue.purge`. */
export async function purge(place: Place, options: PurgeOptions): Promise<number> {
  const read = readOptions("purge", PURGE, options);
  requireFilter("purge", [read.state, read.olderThan, read.type, read.group, read.all]);
  const where = whereOf(statesOf("purge", read.state, ENDED, REMOVABLE), read);
  return changeAll(place, "remove", { ...where, endedForMs: read.olderThan ?? null }, read);
}

interface Wanted {
  readonly state?: readonly JobState[] | undefined;
  readonly type?: string | undefined;
  readonly group?: string | undefined;
  readonly idempotencyKey?: string | undefined;
  readonly all?: true | undefined;
  readonly onProgress?: unknown;
  readonly signal?: AbortSignal | undefined;
}

async function changeWanted(
  place: Place,
  owner: string,
  action: ChangeAction,
  applies: readonly JobState[],
  read: Wanted,
): Promise<number> {
  const { idempotencyKey } = read;
  requireFilter(owner, [read.state, read.type, read.group, idempotencyKey, read.all]);
  const where = whereOf(statesOf(owner, read.state, applies, applies), read);
  if (idempotencyKey !== undefined) return changeHolder(place, action, where, idempotencyKey, read);
  const [overview] = await place.storage.overview(place.queue);
  // At most as many as there were at the beginning, since producers may go on adding.
  let most = 0;
  for (const state of where.states) most += overview?.counts[state] ?? 0;
  return changeAll(place, action, where, read, most);
}

/** The job that has the key, if the filter matches it. */
async function changeHolder(
  { storage, queue }: Place,
  action: ChangeAction,
  { states: meant, type, group }: ChangeFilter,
  key: string,
  follow: Wanted,
): Promise<number> {
  const job = await storage.findByKey(queue, key);
  follow.signal?.throwIfAborted();
  if (job === undefined || (type !== null && job.type !== type) || (group !== null && job.group !== group)) return 0;
  const changed = await storage.change({ action, queue, ids: [job.id], states: meant });
  reportProgress(follow, changed.length);
  return changed.length;
}

async function changeAll(
  { storage, queue, clock }: Place,
  action: ChangeAction,
  where: ChangeFilter,
  follow: Wanted,
  most = Number.POSITIVE_INFINITY,
): Promise<number> {
  const since = clock.now();
  for (let all = 0; ;) {
    follow.signal?.throwIfAborted();
    // Jobs that end while this runs (redriven, and dead again) are not changed.
    const elapsed = all === 0 ? 0 : clock.now() - since;
    const endedForMs = onlyEnded(where) && elapsed > 0 ? Math.max(where.endedForMs ?? 0, elapsed) : where.endedForMs;
    const limit = Math.min(STEP, most - all);
    const changed = limit === 0 ? [] : await storage.change({ action, queue, where: { ...where, endedForMs }, limit });
    all += changed.length;
    if (changed.length > 0) reportProgress(follow, all);
    if (changed.length < STEP || all >= most) return all;
  }
}

function reportProgress({ onProgress }: Wanted, changed: number): void {
  (onProgress as FollowOptions["onProgress"])?.(changed);
}

/** Does the filter match only jobs that have ended? */
function onlyEnded({ states: meant }: ChangeFilter): boolean {
  return meant.every((state) => ENDED.includes(state));
}

function whereOf(meant: readonly JobState[], { type, group }: Wanted): ChangeFilter {
  return { states: meant, type: type ?? null, group: group ?? null, endedForMs: null };
}

function statesOf(
  owner: string,
  given: readonly JobState[] | undefined,
  fallback: readonly JobState[],
  applies: readonly JobState[],
): readonly JobState[] {
  const wrong = given?.find((state) => !applies.includes(state));
  if (wrong === undefined) return given ?? fallback;
  throw new OptionsError(owner, "state", wrong, `a state that this applies to: ${applies.join(", ")}`);
}

/** A misspelt or forgotten filter must not match all jobs. */
function requireFilter(owner: string, given: readonly unknown[]): void {
  if (given.every((one) => one === undefined)) {
    throw new OptionsError(owner, "all", undefined, "true if no other filter is given");
  }
}

function readId(id: unknown): string {
  if (typeof id === "string") return id;
  throw new OptionsError("redrive", "target", id, anyText.expected);
}
