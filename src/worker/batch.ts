import { JobError } from "../core/errors.ts";
import type { JobContext, JobView } from "./context.ts";

/** What a handler of several jobs can do beside its work. */
export interface BatchContext {
  /** Aborted when the batch must stop as a whole: the worker stops, or every job in it is cancelled, late or lost. */
  readonly signal: AbortSignal;
  /** The context of one of the jobs: its own signal, progress, log and token. */
  of(job: JobView): JobContext;
}

/** What the handler said about job number `i` of `size`. */
export function partOf(returned: unknown, i: number, size: number): { value: unknown } | { thrown: unknown } {
  if (returned === undefined) return { value: undefined };
  if (!Array.isArray(returned) || returned.length !== size) {
    const got = Array.isArray(returned) ? `${returned.length} of them` : typeof returned;
    return { thrown: new JobError(`a batch handler returns one outcome for each of its ${size} jobs, got ${got}`) };
  }
  const outcome: unknown = returned[i];
  return outcome instanceof Error ? { thrown: outcome } : { value: outcome };
}
