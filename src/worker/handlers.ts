import { OptionsError } from "../core/errors.ts";
import { nameText } from "../core/names.ts";
import { fn, hasMethods, readArgument } from "../core/options.ts";
import type { JobContext, JobView } from "./context.ts";
import type { BatchContext } from "./batch.ts";

/** Is called for a job. Its return value is the job's result. */
export type Handler<Data = unknown, Result = unknown> = (
  job: JobView<Data>,
  context: JobContext,
) => Result | Promise<Result>;

/** Is called for several jobs at once. It returns one outcome for each: its result, or an Error. Outcomes that are promises are awaited. */
export type BatchHandler<Data = unknown, Result = unknown> = (
  jobs: readonly JobView<Data>[],
  context: BatchContext,
) => BatchOutcomes<Result> | void | Promise<BatchOutcomes<Result> | void>;

type BatchOutcomes<Result> = readonly (Result | Error | Promise<Result | Error>)[];

/** The handlers of a worker: one for all types, or one by type. Names of types are data: prototypes are never looked up. */
export interface Handlers<H> {
  /** The types to claim; null: any. */
  readonly types: readonly string[] | null;
  readonly of: (type: string) => H | undefined;
}

export function readHandlers<H>(owner: string, handlers: unknown): Handlers<H> {
  if (typeof handlers === "function") return { types: null, of: () => handlers as H };
  if (typeof handlers !== "object" || handlers === null || hasMethods(handlers, ["then"])) {
    throw new OptionsError(owner, "handlers", handlers, "a function, or an object of functions by type");
  }
  const byType = new Map<string, H>();
  for (const [type, handler] of Object.entries(handlers)) {
    readArgument(owner, "handlers", nameText, type);
    if (fn.read(handler) === undefined) throw new OptionsError(owner, `handlers.${type}`, handler, "a function");
    byType.set(type, handler as H);
  }
  if (byType.size === 0) throw new OptionsError(owner, "handlers", handlers, "an object with at least one handler");
  return { types: [...byType.keys()], of: (type) => byType.get(type) };
}
