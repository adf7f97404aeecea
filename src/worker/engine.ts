import { afterAll } from "../core/clock.ts";
import { inTime } from "../core/deadline.ts";
import { JobError, LimitConflictError } from "../core/errors.ts";
import { isDeclared } from "../limits/define.ts";
import { confirmationsOf } from "../storage/confirmations.ts";
import { declareLimits, type LimitListener } from "../storage/declaring.ts";
import type { Outcome } from "../storage/job-storage.ts";
import { registrarOf } from "../storage/registrar.ts";
import { admissionFor } from "./admission.ts";
import { type Ask, inBackground, type ReportError } from "./ask.ts";
import { ClaimLoop, retryIn } from "./claim-loop.ts";
import { Emitter } from "./emitter.ts";
import { ErrorReporter, type ErrorListener } from "./error-reporter.ts";
import type { BatchHandler, Handler, Handlers } from "./handlers.ts";
import { InFlight } from "./in-flight.ts";
import type { WorkerOptions, WorkerSettings } from "./options.ts";
import type { WorkerParts } from "./parts.ts";
import { PendingOutcomes } from "./pending-outcomes.ts";
import { registration } from "./registration.ts";
import { ReportWriter } from "./report-writer.ts";
import { Sleep } from "./sleep.ts";
import { sweepRegularly } from "./sweeper.ts";

/** Jobs that were aborted have so long to end; then they are given back. */
const LAST_GRACE_MS = 500;
/** The storage has so long to settle them; after that they return when their leases expire. */
const LAST_SETTLE_MS = 2_000;

/**
 * The life of a worker, from `start` to `stop`, and its parts. A job goes through them in this order:
 *
 * - claim: `ClaimLoop`, as many as `Admission` allows;
 * - start: `Starter`, which gives back what was claimed too late to start;
 * - execute: `InFlight`, which calls the handlers, renews leases and aborts jobs that are cancelled or late;
 * - settle: `PendingOutcomes`, written by the next claim;
 * - emit: the storage, and `Emitter` for the events of the worker itself.
 */
export class Engine {
  readonly #parts: WorkerParts;
  readonly #errors: ErrorReporter;
  readonly #loop: ClaimLoop;

  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #started: Promise<void> | undefined;
  /** Its limits were refused, and it will never start. */
  #refused = false;
  #looping: Promise<void> | undefined;
  #unsubscribe: () => void = () => {};
  #stopSweeping: () => void = () => {};
  #unregister: () => Promise<void> = () => Promise.resolve();
  #stopping: Promise<void> | undefined;
  #cancelTimer: (() => void) | undefined;
  /** Resolves when a worker that stops no longer waits for its storage. */
  readonly #gaveUp = Promise.withResolvers<void>();
  /** Aborts all waiting for answers of the storage. */
  readonly #ended = new AbortController();

  constructor(queue: string, id: string, handlers: Handlers<Handler | BatchHandler>, settings: WorkerSettings) {
    const { storage, clock } = settings;
    this.#errors = new ErrorReporter(queue, clock, settings.onError as WorkerOptions["onError"]);
    const isRunning = () => this.#state === "running";
    const isStopped = () => this.#state === "stopped";
    const ask: Ask = (step, late) => inTime(clock, step, { late, signal: this.#ended.signal });
    const report: ReportError = (error, job) => {
      if (!isStopped()) this.#errors.report(error, job);
    };
    const sleep = new Sleep(clock);
    const emitter = new Emitter(storage, queue, id, report);
    const outcomes = new PendingOutcomes(storage, ask, report);
    const admission = admissionFor(settings.limiter, queue, id, {
      clock,
      free: () => (isRunning() ? inFlight.free : 0),
      atLeast: settings.batch?.size ?? 1,
      granted: () => sleep.signal(),
      blocked: (blockedBy, retryInMs) => emitter.blocked(blockedBy, retryInMs),
      failed: report,
    });
    const inFlight: InFlight = new InFlight({
      handlers,
      settings,
      reports: new ReportWriter(storage, clock, report),
      admission,
      report,
      ended: (outcome) => settle([outcome]),
      freed: () => sleep.signal(),
    });
    const settle = (ended: readonly Outcome[]) => {
      // After the last turn of the loop no other call would settle them.
      if (isStopped() && ended.length > 0) inBackground(() => storage.settle(ended), report);
      else for (const outcome of ended) outcomes.add(outcome);
      sleep.signal();
    };
    this.#parts = {
      queue,
      id,
      types: handlers.types,
      settings,
      isRunning,
      isStopped,
      ask,
      report,
      sleep,
      admission,
      confirmations: confirmationsOf(storage, clock),
      inFlight,
      outcomes,
      emitter,
      settle,
    };
    this.#loop = new ClaimLoop(this.#parts);
  }

  get running(): number {
    const { size, prefetched } = this.#parts.inFlight;
    return size - prefetched;
  }

  /** Calls the listener with errors that do not come from handlers, until the returned function is called. */
  onError(listener: ErrorListener): () => void {
    return this.#errors.listen(listener);
  }

  start(): Promise<void> {
    if (!this.#refused && (this.#state === "stopping" || this.#state === "stopped")) {
      return Promise.reject(new JobError("a stopped worker cannot start again: create a new one"));
    }
    this.#started ??= this.#begin();
    return this.#started;
  }

  async stop(timeout: number): Promise<void> {
    const { settings, sleep, admission, inFlight, emitter } = this.#parts;
    if (this.#state === "new") {
      this.#state = "stopped";
      emitter.becameIdle();
    }
    if (this.#state === "stopped") return;
    if (this.#state === "running") {
      this.#state = "stopping";
      admission.stop();
      inFlight.giveBackPrefetched();
      this.#stopping = this.#end();
    }
    if (timeout === 0) this.#abortAll();
    const cancel = timeout === 0 ? () => {} : afterAll(settings.clock, timeout, () => this.#abortAll());
    sleep.signal();
    await this.#stopping;
    cancel();
  }

  onIdle(): Promise<void> {
    const { emitter, sleep } = this.#parts;
    if (emitter.empty || this.#state === "stopped") return Promise.resolve();
    const idle = emitter.idle();
    sleep.signal();
    return idle;
  }

  async #begin(): Promise<void> {
    // In a later microtask, so that the code that made the worker can add listeners or stop it first.
    await Promise.resolve();
    if (this.#state !== "new") return;
    const { settings, ask, report, sleep, emitter } = this.#parts;
    this.#state = "running";
    for (let tries = 0; this.#state === "running"; tries++) {
      try {
        await ask(() => settings.storage.setup());
        await this.#declare();
        if (this.#state === "running") this.#unsubscribe = this.#subscribe();
        break;
      } catch (error) {
        if (error instanceof LimitConflictError && this.#state === "running") return this.#refuse(error);
        report(error);
        await sleep.rest(retryIn(tries), () => this.#state !== "running");
      }
    }
    if (this.#state !== "running") return;
    emitter.workerStarted();
    // The worker does not wait for its registration, and works without it.
    this.#unregister = registrarOf(settings.storage, settings.clock).add(registration(this.#parts));
    this.#stopSweeping = sweepRegularly(settings, report);
    this.#looping = this.#loop.run();
  }

  /** Declares the limits of the worker, before the first claim. */
  async #declare(): Promise<void> {
    const { id, ask, settings } = this.#parts;
    const { storage, limits, onLimitChange } = settings;
    if (limits === undefined || isDeclared(limits) || this.#state !== "running") return;
    const listener = onLimitChange as LimitListener | undefined;
    await ask(() => declareLimits(storage, limits, `worker ${id}`, listener));
  }

  /** Its limits differ from the stored ones, and it has `onConflict: "reject"`: another try would not help. */
  #refuse(conflict: LimitConflictError): never {
    this.#errors.reportLast(conflict);
    // Without a listener, and if `start()` is not awaited, the rejection stays unhandled and ends the process: a process whose worker
    // runs nothing must not go unnoticed.
    if (this.#errors.hasListener) this.#started?.catch(() => {});
    this.#refused = true;
    this.#state = "stopped";
    this.#parts.admission.stop();
    this.#parts.emitter.becameIdle();
    throw conflict;
  }

  #subscribe(): () => void {
    const { queue, settings } = this.#parts;
    return settings.storage.subscribe({
      queue,
      wake: (mayStart) => this.#loop.wakeUp(mayStart),
      cancelled: (ids) => this.#loop.cancel(ids),
    });
  }

  async #end(): Promise<void> {
    const { settings, sleep, confirmations, inFlight, outcomes, emitter } = this.#parts;
    const done = async () => {
      await this.#started;
      await this.#looping;
    };
    await Promise.race([done(), this.#gaveUp.promise]);
    outcomes.clear();
    this.#state = "stopped";
    this.#ended.abort(new JobError("the worker was stopped"));
    sleep.signal();
    this.#cancelTimer?.();
    inFlight.close();
    this.#stopSweeping();
    this.#unsubscribe();
    emitter.becameIdle();
    const leave = async () => {
      await confirmations.flush();
      await Promise.allSettled([this.#unregister(), emitter.workerStopped()]);
    };
    await inTime(settings.clock, leave, { withinMs: LAST_SETTLE_MS }).catch(() => {});
  }

  /** The time to stop is up: running jobs are aborted, and those that do not end are given back. */
  #abortAll(): void {
    // The time may be up while the worker is being unregistered.
    if (this.#state === "stopped") return;
    const { settings, inFlight } = this.#parts;
    inFlight.abort();
    this.#cancelTimer ??= afterAll(settings.clock, LAST_GRACE_MS, () => {
      inFlight.abandon();
      this.#cancelTimer = afterAll(settings.clock, LAST_SETTLE_MS, () => this.#gaveUp.resolve());
    });
  }
}
