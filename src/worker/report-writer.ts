import type { Clock } from "../core/clock.ts";
import { StaleLeaseError } from "../core/errors.ts";
import type { JobStorage, Report } from "../storage/job-storage.ts";
import { STEP_BYTES } from "../storage/step-bytes.ts";
import { inTime } from "../core/deadline.ts";

/** How many bytes the details of a progress may have. */
export const LARGEST_DETAILS = 65_536;

interface Pending {
  readonly report: Report;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Writes progress, log lines and real weights of all jobs of a worker, one call at a time; the next call writes all that came meanwhile. */
export class ReportWriter {
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  /** Is called with the error when a write fails. */
  readonly #failed: (error: unknown) => void;
  /** The latest report of each lease that is not written yet, by token. */
  readonly #latest = new Map<number, Promise<void>>();
  #pending: Pending[] = [];
  #writing = false;

  constructor(storage: JobStorage, clock: Clock, failed: (error: unknown) => void) {
    this.#storage = storage;
    this.#clock = clock;
    this.#failed = failed;
  }

  /**
   * Resolves when the report is written, or its write failed: a job does not fail because the storage did. Rejects with a
   * `StaleLeaseError` if the lease is lost; a caller that does not await it need not handle that.
   */
  report(report: Report): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#pending.push({ report, resolve, reject });
    const { token } = report;
    const over = () => {
      if (this.#latest.get(token) === written) this.#latest.delete(token);
    };
    const written = promise.then(over, over);
    this.#latest.set(token, written);
    if (!this.#writing) void this.#write();
    return promise;
  }

  /** Resolves when all reports under this lease so far are written or have failed; undefined: nothing is pending. */
  written(token: number): Promise<void> | undefined {
    return this.#latest.get(token);
  }

  /** Never rejects. */
  async #write(): Promise<void> {
    this.#writing = true;
    // Reports of the same turn are written by the same call.
    await Promise.resolve();
    while (this.#pending.length > 0) {
      const batch = this.#takeBatch();
      try {
        const stale = new Set(await inTime(this.#clock, () => this.#storage.report(merge(batch))));
        for (const { report, resolve, reject } of batch) {
          if (stale.has(report.id)) reject(new StaleLeaseError(report.id));
          else resolve();
        }
      } catch (error) {
        this.#failed(error);
        for (const { resolve } of batch) resolve();
      }
    }
    this.#writing = false;
  }

  /** At most `STEP_BYTES`, and for one lease of each job only: the answer names jobs and not leases. */
  #takeBatch(): Pending[] {
    const leases = new Map<string, number>();
    const batch: Pending[] = [];
    const rest: Pending[] = [];
    let bytes = 0;
    for (const pending of this.#pending) {
      const { id, token } = pending.report;
      if (!leases.has(id)) leases.set(id, token);
      bytes += sizeOf(pending.report);
      const goes = leases.get(id) === token && (bytes <= STEP_BYTES || batch.length === 0);
      (goes ? batch : rest).push(pending);
    }
    this.#pending = rest;
    return batch;
  }
}

/** The size in bytes, roughly: details count as if they had their largest size. */
function sizeOf({ log = [], progress }: Report): number {
  const message = progress === undefined ? 0 : (progress.message?.length ?? 0);
  const details = progress?.details === undefined ? 0 : LARGEST_DETAILS;
  return log.reduce((sum, line) => sum + line.length, 0) + message + details;
}

/** One report for each job: the last progress, all lines and warnings, and the last value of each weight. */
function merge(batch: readonly Pending[]): Report[] {
  const byJob = new Map<string, Report>();
  for (const { report } of batch) {
    const before = byJob.get(report.id);
    const log = [...(before?.log ?? []), ...(report.log ?? [])];
    const weights = report.weights === undefined ? before?.weights : { ...before?.weights, ...report.weights };
    const warnings = [...(before?.warnings ?? []), ...(report.warnings ?? [])];
    const added = {
      ...(log.length > 0 && { log }),
      ...(warnings.length > 0 && { warnings }),
      ...(weights !== undefined && { weights }),
    };
    byJob.set(report.id, { ...before, ...report, ...added });
  }
  return [...byJob.values()];
}
