import { JOB_EVENT_NAMES, type JobEventName, type JobEvents } from "../core/events.ts";
import { OptionsError } from "../core/errors.ts";
import { type Check, fn, missingMethod, readArgument } from "../core/options.ts";
import type { JobStorage } from "./job-storage.ts";

const MEMBERS = [
  "setup",
  "close",
  "add",
  "claim",
  "confirm",
  "settle",
  "heartbeat",
  "report",
  "sweep",
  "register",
  "workers",
  "unhandled",
  "endings",
  "find",
  "findByKey",
  "history",
  "list",
  "overview",
  "explain",
  "backlog",
  "change",
  "update",
  "setPaused",
  "subscribe",
  "publish",
] as const satisfies readonly (keyof JobStorage)[];

/** Any storage for jobs, built-in or the user's own. */
export const jobStorage: Check<JobStorage> = {
  expected: "a storage for jobs, such as new MemoryStorage() or new SqliteStorage(path)",
  read: (value) => (missingMethod(value, MEMBERS) === undefined ? (value as JobStorage) : undefined),
};

/** Options that name their storage `storage`, or by the other word for it, `store`. */
export type StorageOrStore<Options> =
  | Options
  | (Omit<Options, "storage"> & { readonly store: JobStorage; readonly storage?: undefined });

/** The options with `store` renamed to `storage`. */
export function namingStorage(owner: string, options: unknown): unknown {
  if (typeof options !== "object" || options === null || !Object.hasOwn(options, "store")) return options;
  const { store, ...others } = options as { readonly store: unknown; readonly storage?: unknown };
  if (store === undefined) return others;
  if (others.storage !== undefined && others.storage !== store) {
    throw new OptionsError(owner, "store", store, "left out where `storage` is given: it is another word for it");
  }
  return { ...others, storage: readArgument(owner, "store", jobStorage, store) };
}

const NO_ERRORS =
  'every call of it rejects with its own error; worker.on("error") and server.on("error") hear those of workers';

/**
 * Calls `listener` for every event of this name in the queue, from any process, until the returned function is called. `others`:
 * further names that the caller accepts.
 */
export function listen<Name extends JobEventName>(
  storage: JobStorage,
  queue: string,
  name: Name,
  listener: (event: JobEvents[Name]) => void,
  others: readonly string[] = [],
): () => void {
  if (!JOB_EVENT_NAMES.includes(name)) {
    const known = [...JOB_EVENT_NAMES, ...others].map((one) => `"${one}"`).join(", ");
    throw new OptionsError("on", "event", name, known, (name as string) === "error" ? NO_ERRORS : "");
  }
  readArgument("on", "listener", fn, listener);
  return storage.subscribe({
    queue,
    event: (event) => {
      if (event.event === name) listener(event as unknown as JobEvents[Name]);
    },
  });
}
