import type { Clock } from "../core/clock.ts";
import { StaleLeaseError } from "../core/errors.ts";
import type { JobStorage, Report } from "../storage/job-storage.ts";
import { inTime } from "../core/deadline.ts";

interface Pending {
  readonly report: Report;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Writes progress, log lines and real weights of all jobs of a worker, one call at a time: what comes meanwhile goes together. */
export class Reporter {
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  /** The latest report of each lease that is not written yet, by token. */
  readonly #latest = new Map<number, Promise<void>>();
  #pending: Pending[] = [];
  #writing = false;

  constructor(storage: JobStorage, clock: Clock) {
    this.#storage = storage;
    this.#clock = clock;
  }

  /**
   * Resolves when it is written; rejects with a `StaleLeaseError` if the job is somebody else's by now. Whoever does not
   * wait for it need not fear that it fails.
   */
  report(report: Report): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#pending.push({ report, resolve, reject });
    const { token } = report;
    const over = () => {
      if (this.#latest.get(token) === heard) this.#latest.delete(token);
    };
    const heard = promise.then(over, over);
    this.#latest.set(token, heard);
    if (!this.#writing) void this.#write();
    return promise;
  }

  /** Resolves when all that was reported under this lease so far is written, or could not be; undefined: it is. */
  written(token: number): Promise<void> | undefined {
    return this.#latest.get(token);
  }

  /** Never rejects: whoever reported is told. */
  async #write(): Promise<void> {
    this.#writing = true;
    // Whatever is reported in the same turn goes along.
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
        for (const { reject } of batch) reject(error);
      }
    }
    this.#writing = false;
  }

  /** All that waits, but for one lease of each job only: the answer names jobs and not leases. */
  #takeBatch(): Pending[] {
    const leases = new Map<string, number>();
    const batch: Pending[] = [];
    const rest: Pending[] = [];
    for (const pending of this.#pending) {
      const { id, token } = pending.report;
      if (!leases.has(id)) leases.set(id, token);
      (leases.get(id) === token ? batch : rest).push(pending);
    }
    this.#pending = rest;
    return batch;
  }
}

/** One report for each job: the last progress, all lines, and the last word about each weight. */
function merge(batch: readonly Pending[]): Report[] {
  const byJob = new Map<string, Report>();
  for (const { report } of batch) {
    const before = byJob.get(report.id);
    const log = [...(before?.log ?? []), ...(report.log ?? [])];
    const weights = report.weights === undefined ? before?.weights : { ...before?.weights, ...report.weights };
    const added = { ...(log.length > 0 && { log }), ...(weights !== undefined && { weights }) };
    byJob.set(report.id, { ...before, ...report, ...added });
  }
  return [...byJob.values()];
}
