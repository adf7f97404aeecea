import type { JobEvent } from "../core/events.ts";
import type { Claim, JobStorage } from "../storage/job-storage.ts";
import { inBackground, type ReportError } from "./ask.ts";

/** A limit that blocks one claim after the other is reported at most once in so long: a report costs as much as a claim. */
const REPORT_EVERY_MS = 1_250;

/** Publishes the events of a worker, and resolves the promises of `onIdle`. The worker does not wait for its events. */
export class Emitter {
  readonly #storage: JobStorage;
  readonly #source: { readonly queue: string; readonly worker: string };
  readonly #report: ReportError;
  /** A job has started since `drained` was last published. */
  #busy = false;
  /** The queue was found empty, and no wake-up came since. */
  #empty = false;
  #idle: (() => void)[] = [];
  /** The limit that was reported last as blocking claims, and when. */
  #reported: string | null = null;
  #reportedAt = Number.NEGATIVE_INFINITY;
  /** Since that report a job has started, or no limit was blocking. */
  #passed = false;

  constructor(storage: JobStorage, queue: string, worker: string, report: ReportError) {
    this.#storage = storage;
    this.#source = { queue, worker };
    this.#report = report;
  }

  /** A caller of `onIdle` waits, and the queue may hold jobs. */
  get idleIsAwaited(): boolean {
    return this.#idle.length > 0 && !this.#empty;
  }

  get empty(): boolean {
    return this.#empty;
  }

  workerStarted(): void {
    this.#publish({ event: "worker-started", ...this.#source });
  }

  async workerStopped(): Promise<void> {
    await this.#storage.publish({ event: "worker-stopped", ...this.#source });
  }

  /** A claim was answered: reports the limit that blocks, now and then. */
  answered({ jobs, nextInMs, blockedBy }: Claim, now: number): void {
    const started = jobs.length > 0;
    this.#passed ||= started || blockedBy === null;
    if (blockedBy === null) return;
    const other = blockedBy !== this.#reported;
    if (!(other || this.#passed) || (!(other && started) && now < this.#reportedAt + REPORT_EVERY_MS)) return;
    this.#reported = blockedBy;
    this.#reportedAt = now;
    this.#passed = false;
    this.blocked(blockedBy, nextInMs);
  }

  blocked(blockedBy: string, retryInMs: number | null): void {
    this.#publish({ event: "rate-limited", ...this.#source, blockedBy, retryInMs });
  }

  /** Jobs were claimed. */
  jobsFound(): void {
    this.#busy = true;
    this.#empty = false;
  }

  /** A wake-up came: jobs may be there. */
  wokenUp(): void {
    this.#empty = false;
  }

  /** No job runs and none was found. */
  foundEmpty(): void {
    if (this.#busy) this.#publish({ event: "drained", ...this.#source });
    this.#busy = false;
    this.becameIdle();
  }

  becameIdle(): void {
    this.#empty = true;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  /** Resolves when the worker becomes idle. */
  idle(): Promise<void> {
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #publish(event: JobEvent): void {
    inBackground(() => this.#storage.publish(event), this.#report);
  }
}
