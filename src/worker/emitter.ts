import type { JobEvent } from "../core/events.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { inBackground, type ReportError } from "./ask.ts";

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
