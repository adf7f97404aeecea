import { JobError } from "../core/errors.ts";
import type { JobStorage, Outcome } from "../storage/job-storage.ts";
import { STEP_BYTES } from "../storage/step-bytes.ts";
import { isUnstarted } from "./outcome.ts";
import type { Ask, ReportError } from "./ask.ts";

/** Outcomes of jobs that ended, until the storage has written them. */
export class PendingOutcomes {
  readonly #storage: JobStorage;
  readonly #ask: Ask;
  readonly #report: ReportError;
  #outcomes: Outcome[] = [];

  constructor(storage: JobStorage, ask: Ask, report: ReportError) {
    this.#storage = storage;
    this.#ask = ask;
    this.#report = report;
  }

  get size(): number {
    return this.#outcomes.length;
  }

  add(outcome: Outcome): void {
    this.#outcomes.push(outcome);
  }

  clear(): void {
    this.#outcomes = [];
  }

  /** Takes the outcomes of the next step: the first that fit into `STEP_BYTES`, at least one. */
  take(): readonly Outcome[] {
    const { first, rest } = firstOf(latestOf(this.#outcomes));
    this.#outcomes = [...rest];
    return first;
  }

  /** None of these is known to be written: they are settled the next time. */
  putBack(outcomes: readonly Outcome[]): void {
    this.#outcomes.unshift(...outcomes);
  }

  /**
   * One outcome that the storage cannot write must not hold up the others. Each is settled on its own; an outcome that is refused
   * while others are written, or for as long as a lease (`expired`), is given up, and its job returns when the lease expires.
   * The outcome of a job that was never called is kept until it is written: it gives back the attempt that the job spends when its
   * lease expires.
   */
  async settleApart(expired: boolean): Promise<void> {
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    const refused: Outcome[] = [];
    for (const outcome of outcomes) {
      await this.#ask(() => this.#storage.settle([outcome])).catch(() => refused.push(outcome));
    }
    const keepsAll = !expired && refused.length === outcomes.length;
    this.putBack(refused.filter((outcome) => keepsAll || isUnstarted(outcome)));
    for (const { id } of refused.filter((outcome) => !keepsAll && !isUnstarted(outcome))) {
      this.#report(new JobError(`the outcome of job ${id} could not be written: it runs again when its lease expires`));
    }
  }
}

/** The latest outcome of each job: if a job was lost and claimed again, the outcome under its older lease is stale. */
function latestOf(outcomes: readonly Outcome[]): readonly Outcome[] {
  if (outcomes.length < 2) return outcomes;
  const latest = new Map<string, Outcome>();
  for (const outcome of outcomes) {
    if ((latest.get(outcome.id)?.token ?? 0) < outcome.token) latest.set(outcome.id, outcome);
  }
  return latest.size === outcomes.length ? outcomes : [...latest.values()];
}

function firstOf(outcomes: readonly Outcome[]): { first: readonly Outcome[]; rest: readonly Outcome[] } {
  let bytes = 0;
  const end = outcomes.findIndex((outcome, i) => (bytes += sizeOf(outcome)) > STEP_BYTES && i > 0);
  return end < 0 ? { first: outcomes, rest: [] } : { first: outcomes.slice(0, end), rest: outcomes.slice(end) };
}

function sizeOf(outcome: Outcome): number {
  if (outcome.to === "completed") return outcome.result?.length ?? 0;
  return (outcome.error?.message.length ?? 0) + (outcome.error?.stack?.length ?? 0);
}
