import { JobError } from "../core/errors.ts";
import { textOf } from "../core/text.ts";
import type { JobContext, JobView } from "./context.ts";
import type { InFlightJob } from "./in-flight-job.ts";

/** What a handler of several jobs can do beside its work. */
export interface BatchContext {
  /** Aborted when the batch must stop as a whole: the worker stops, or every job in it is cancelled, late or lost. */
  readonly signal: AbortSignal;
  /** The context of one of the jobs: its own signal, progress, log, weights and token. */
  of(job: JobView): JobContext;
}

/** One job of a batch. */
export interface BatchPart {
  readonly running: InFlightJob;
  readonly view: JobView;
  readonly context: JobContext;
}

export function batchContext(parts: readonly BatchPart[]): BatchContext {
  const all = new AbortController();
  const going = new Set(parts.map(({ running }) => running));
  for (const { running } of parts) {
    const stopped = () => {
      going.delete(running);
      if (going.size === 0) all.abort(running.signal.reason);
    };
    // A job that was aborted before this listener was added counts as well.
    if (running.signal.aborted) stopped();
    else running.signal.addEventListener("abort", stopped, { once: true });
  }
  return {
    signal: all.signal,
    of: (job) => {
      const part = parts.find(({ view }) => view === job);
      if (part === undefined) throw new JobError("expected one of the jobs of this batch, got another job");
      return part.context;
    },
  };
}

/** What the handler returned, with outcomes that are promises awaited: `jobs.map(async (job) => …)` is an array of them. */
export async function settledOutcomes(returned: unknown): Promise<unknown> {
  const outcomes: unknown = await returned;
  if (!Array.isArray(outcomes)) return outcomes;
  return Promise.all(
    outcomes.map(async (outcome: unknown) => {
      try {
        return await outcome;
      } catch (thrown) {
        return isError(thrown) ? thrown : new JobError(textOf(thrown));
      }
    }),
  );
}

/** What the handler returned for job number `i` of `size`. */
export function partOf(returned: unknown, i: number, size: number): { value: unknown } | { thrown: unknown } {
  if (returned === undefined) return { value: undefined };
  if (!Array.isArray(returned) || returned.length !== size) {
    const got = Array.isArray(returned) ? `${returned.length} of them` : typeof returned;
    return {
      thrown: new JobError(`expected the batch handler to return one outcome for each of its ${size} jobs, got ${got}`),
    };
  }
  try {
    const outcome: unknown = returned[i];
    return isError(outcome) ? { thrown: outcome } : { value: outcome };
  } catch (thrown) {
    return { thrown };
  }
}

/** Recognises errors of any realm: in test runners, errors of Node itself belong to another one. A proxy that throws is no error. */
function isError(outcome: unknown): boolean {
  try {
    return outcome instanceof Error || Object.prototype.toString.call(outcome) === "[object Error]";
  } catch {
    return false;
  }
}
