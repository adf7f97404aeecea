import type { Clock } from "../core/clock.ts";
import { StaleLeaseError } from "../core/errors.ts";
import type { JobStorage, Report } from "../storage/job-storage.ts";
import { inTime } from "./deadline.ts";

interface Pending {
  readonly report: Report;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Writes progress and log lines of all jobs of a worker, one call at a time: what comes meanwhile goes together. */
export class Reporter {
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  #pending: Pending[] = [];
  #writing: Promise<void> | undefined;

  constructor(storage: JobStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /** Resolves when it is written; rejects with a `StaleLeaseError` if the job is somebody else's by now. */
  report(report: Report): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#pending.push({ report, resolve, reject });
      this.#writing ??= this.#write();
    });
  }

  /** Resolves when all that was reported so far is written, or could not be; undefined: nothing is under way. */
  get flushed(): Promise<void> | undefined {
    return this.#writing;
  }

  /** Never rejects: whoever reported is told. */
  async #write(): Promise<void> {
    // Whatever is reported in the same turn goes along.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const batch = this.#pending;
      this.#pending = [];
      try {
        const stale = new Set(await inTime(this.#clock, this.#storage.report(merge(batch))));
        for (const { report, resolve, reject } of batch) {
          if (stale.has(report.id)) reject(new StaleLeaseError(report.id));
          else resolve();
        }
      } catch (error) {
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = undefined;
  }
}

/** One report for each job: the last progress, and all lines. */
function merge(batch: readonly Pending[]): Report[] {
  const byJob = new Map<string, Report>();
  for (const { report } of batch) {
    const before = byJob.get(report.id);
    const log = [...(before?.log ?? []), ...(report.log ?? [])];
    byJob.set(report.id, { ...before, ...report, ...(log.length > 0 && { log }) });
  }
  return [...byJob.values()];
}
