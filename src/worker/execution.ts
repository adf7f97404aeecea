import { afterAll } from "../core/clock.ts";
import { HoldError, JobError, LateCallError, PermanentJobError, RetryableJobError } from "../core/errors.ts";
import { fromJson } from "../core/json.ts";
import type { Outcome } from "../storage/job-storage.ts";
import type { Admission, LimiterGrant } from "./admission.ts";
import { inBackground, type ReportError } from "./ask.ts";
import { batchContext, type BatchPart, partOf, settledOutcomes } from "./batch.ts";
import { Context, type JobView, viewOf, warningOf } from "./context.ts";
import { inTime } from "../core/deadline.ts";
import type { BatchHandler, Handler, Handlers } from "./handlers.ts";
import type { Call, InFlightJob } from "./in-flight-job.ts";
import type { WorkerSettings } from "./options.ts";
import { failed, givenBack, succeeded } from "./outcome.ts";
import type { ReportWriter } from "./report-writer.ts";

export interface ExecutionOptions {
  readonly handlers: Handlers<Handler | BatchHandler>;
  readonly settings: WorkerSettings;
  readonly reports: ReportWriter;
  readonly admission: Admission;
  readonly report: ReportError;
  /** The outcome of a job has been decided. Called once for each job. */
  readonly settled: (running: InFlightJob, outcome: Outcome) => void;
  /** A handler returned after `tookMs`, or the worker no longer waits for it. Called once for each call. */
  readonly callEnded: (tookMs: number) => void;
}

/** How a handler ended for one job. */
type End = { readonly value: unknown } | { readonly thrown: unknown };

/** A limiter that is asked about a failed job has so long to answer; then the outcome is decided without it. */
const ASKING_LIMITER = { withinMs: 5_000, who: "the limiter" };
/** A job whose start the limiter could not record is due again after this. */
const RETRY_START_MS = 1_000;

/** Calls handlers, enforces timeouts and deadlines, and decides the outcome of jobs. */
export class Execution {
  readonly #options: ExecutionOptions;
  /** Handlers whose jobs were given back because other handlers of their batch took too long, in that order. */
  readonly #passedOver = new Set<BatchHandler>();

  constructor(options: ExecutionOptions) {
    this.#options = options;
  }

  /** Starts one call for these jobs: one, or a batch. */
  start(jobs: readonly InFlightJob[]): void {
    const call = { left: jobs.length, beganAt: this.#options.settings.clock.now(), ended: false };
    for (const running of jobs) running.call = call;
    void this.#run(jobs, call);
  }

  /** Gives back a job whose handler was not called. */
  giveBack(running: InFlightJob, inMs?: number): void {
    this.#settle(running, givenBack(running.job, inMs));
  }

  /** Settles a job without waiting for its handler or its limiter. */
  abandon(running: InFlightJob): void {
    if (!running.over) this.#settle(running, this.#failed(running, running.signal.reason, 0));
  }

  /** Never rejects. */
  async #run(jobs: readonly InFlightJob[], call: Call): Promise<void> {
    try {
      await (this.#options.settings.batch === undefined ? this.#runOne(jobs) : this.#runBatch(jobs));
    } catch (error) {
      // Whatever failed: every job is settled.
      this.#options.report(error, jobs.length === 1 ? jobs[0]!.job : undefined);
      for (const running of jobs) this.#settle(running, this.#failed(running, error, 0));
    }
    this.#endCall(call);
  }

  /** Awaits only where it must: one await takes longer than everything else that is done for a short job. */
  async #runOne(jobs: readonly InFlightJob[]): Promise<void> {
    const running = jobs[0]!;
    const view = this.#viewOf(running);
    if (view === undefined) return;
    const begins = this.#begin(running);
    if (begins !== true && !(await begins)) return;
    if (this.#giveBackLate(running)) return;
    const handler = this.#options.handlers.of(view.type) as Handler;
    const finished = this.#finish(running, await this.#call(() => handler(view, this.#contextOf(running)), jobs));
    if (finished !== undefined) await finished;
  }

  /**
   * A handler gets jobs of its own types: a batch for several handlers is several calls, one after the other. Under limits the last call may
   * come too late: a handler that was passed over is called first in the next batch.
   */
  async #runBatch(jobs: readonly InFlightJob[]): Promise<void> {
    const byHandler = new Map<BatchHandler, BatchPart[]>();
    for (const running of jobs) {
      const view = this.#viewOf(running);
      if (view === undefined) continue;
      const handler = this.#options.handlers.of(view.type) as BatchHandler;
      const together = byHandler.get(handler) ?? [];
      together.push({ running, view, context: this.#contextOf(running) });
      byHandler.set(handler, together);
    }
    for (const handler of new Set([...this.#passedOver, ...byHandler.keys()])) {
      const parts = byHandler.get(handler);
      if (parts !== undefined) await this.#callBatch(handler, parts);
    }
  }

  async #callBatch(handler: BatchHandler, all: readonly BatchPart[]): Promise<void> {
    const begun: BatchPart[] = [];
    for (const part of all) if (await this.#begin(part.running)) begun.push(part);
    // A job that was abandoned while others began is settled already.
    const ours = begun.filter(({ running }) => !running.over);
    const parts = ours.filter(({ running }) => !this.#giveBackLate(running));
    if (parts.length === 0) {
      if (ours.length > 0) this.#passedOver.add(handler);
      return;
    }
    this.#passedOver.delete(handler);
    const views = parts.map(({ view }) => view);
    const jobs = parts.map(({ running }) => running);
    const call = this.#call(() => settledOutcomes(handler(views, batchContext(parts))), jobs);
    // A handler that ignores its signal holds up the others only until its jobs are abandoned.
    const end = await Promise.race([call, whenOver(jobs)]);
    if (end === undefined) return;
    const ends = jobs.map((_, i) => ("value" in end ? partOf(end.value, i, jobs.length) : end));
    await Promise.all(jobs.map(async (running, i) => this.#finish(running, ends[i]!)));
  }

  /** Gives back a job whose start was granted too long ago: the start counts nowhere. No await may lie between this check and the call. */
  #giveBackLate(running: InFlightJob): boolean {
    if (!running.late) return false;
    this.giveBack(running);
    return true;
  }

  /** Calls the handler, and records when: windows count from here, however long ago the grant was. */
  async #call(handler: () => unknown, jobs: readonly InFlightJob[]): Promise<End> {
    try {
      let returned: unknown;
      try {
        for (const running of jobs) running.called = true;
        returned = handler();
      } finally {
        for (const running of jobs) this.#wasCalled(running);
      }
      return { value: await returned };
    } catch (thrown) {
      return { thrown };
    }
  }

  #wasCalled(running: InFlightJob): void {
    const lateBy = running.wasCalled();
    if (lateBy > 0) this.#options.report(new LateCallError(running.job.id, lateBy), running.job);
  }

  /** Is the handler to be called? The limiter records the start first; a job that was aborted before that ends here. */
  #begin(running: InFlightJob): boolean | Promise<boolean> {
    if (running.over) return false;
    if (this.#deadlineIn(running) === 0) running.abort("deadline");
    if (running.abortCause !== undefined) return this.#endUnbegun(running);
    if (running.grant !== undefined) return this.#recordStart(running, running.grant);
    this.#keepTime(running);
    return true;
  }

  async #recordStart(running: InFlightJob, grant: LimiterGrant): Promise<boolean> {
    try {
      const recorded = grant.start();
      if (recorded !== undefined) await recorded;
    } catch (error) {
      this.#options.report(error, running.job);
      this.giveBack(running, RETRY_START_MS);
      return false;
    }
    if (running.over) {
      // The job was abandoned while its limiter recorded the start: the limiter has to record its end, too.
      inBackground(() => grant.release(), this.#options.report, running.job);
      return false;
    }
    if (running.abortCause !== undefined) return this.#endUnbegun(running);
    this.#keepTime(running);
    return true;
  }

  async #endUnbegun(running: InFlightJob): Promise<false> {
    await this.#finish(running, { thrown: running.signal.reason });
    return false;
  }

  #contextOf(running: InFlightJob): Context {
    return new Context(running, this.#options.reports);
  }

  /** The job as the handler sees it; undefined: there is no handler, or the data is no JSON, and the job is settled. */
  #viewOf(running: InFlightJob): JobView | undefined {
    const { job } = running;
    if (this.#options.handlers.of(job.type) === undefined) {
      // The storage answered with a type that was not asked for: another worker may handle it.
      this.#options.report(new JobError(`there is no handler for type "${job.type}": the job was given back`), job);
      this.giveBack(running);
      return undefined;
    }
    const data = fromJson(job.data);
    if (data !== undefined) return viewOf(job, data);
    this.#settle(running, this.#failed(running, new PermanentJobError("the data of the job is not JSON"), 0));
    return undefined;
  }

  /** Aborts the handler when its timeout or deadline has passed; a handler that ignores that is abandoned after the length of a lease. */
  #keepTime(running: InFlightJob): void {
    const { clock, lease } = this.#options.settings;
    const { timeout } = running.job;
    const abort = (cause: "timeout" | "deadline") => () => {
      running.abort(cause);
      running.atEnd(afterAll(clock, lease, () => this.abandon(running)));
    };
    if (timeout !== null) running.atEnd(afterAll(clock, timeout, abort("timeout")));
    const deadlineIn = this.#deadlineIn(running);
    if (deadlineIn !== undefined) running.atEnd(afterAll(clock, deadlineIn, abort("deadline")));
  }

  /** How much time is left until its deadline, if it has one: counted from the claim, since the job may have been prefetched. */
  #deadlineIn({ job, claimedAt }: InFlightJob): number | undefined {
    const { deadline, startedAt } = job;
    if (deadline === null || startedAt === null) return undefined;
    return Math.max(0, deadline - startedAt - (this.#options.settings.clock.now() - claimedAt));
  }

  /** Decides the outcome, and settles the job once all its reports are written. */
  #finish(running: InFlightJob, end: End): Promise<void> | undefined {
    if (running.over) return undefined;
    const outcome = this.#outcome(running, end);
    const written = this.#options.reports.written(running.job.token);
    if (outcome instanceof Promise || written !== undefined) return this.#finishLater(running, outcome);
    this.#settle(running, outcome);
    return undefined;
  }

  async #finishLater(running: InFlightJob, outcome: Outcome | Promise<Outcome>): Promise<void> {
    const decided = await outcome;
    await this.#options.reports.written(running.job.token);
    this.#settle(running, decided);
  }

  #outcome(running: InFlightJob, end: End): Outcome | Promise<Outcome> {
    const { abortCause } = running;
    // A job that was cancelled or timed out stays so, whatever its handler returned in the end.
    const counts = abortCause === undefined || abortCause === "stopped" || abortCause === "lost";
    if ("value" in end && counts) return this.#succeeded(running, end.value);
    const thrown: unknown = "thrown" in end ? end.thrown : running.signal.reason;
    const asks = abortCause === undefined && isAbout(thrown, RetryableJobError, HoldError);
    return asks ? this.#consultLimiter(running, thrown) : this.#failed(running, thrown, 0);
  }

  #succeeded({ job }: InFlightJob, value: unknown): Outcome {
    const { outcome, warning } = succeeded(job, value);
    if (warning !== undefined) {
      // The warning is written before the job is settled, while the lease holds.
      void this.#options.reports.report({ id: job.id, token: job.token, ...warningOf("result", warning) });
    }
    return outcome;
  }

  /** Asks the limiter for its next available time, or sets it, before the outcome is decided. Never rejects. */
  async #consultLimiter(running: InFlightJob, thrown: unknown): Promise<Outcome> {
    const { admission, report } = this.#options;
    const { clock } = this.#options.settings;
    let limiterIn = 0;
    try {
      if (thrown instanceof RetryableJobError && thrown.retryDate === undefined) {
        limiterIn = await inTime(clock, () => admission.nextIn(), ASKING_LIMITER);
      } else if (thrown instanceof HoldError && thrown.limit === undefined) {
        const ms = thrown.holdMs(clock.wall()) ?? 0;
        if (ms > 0) await inTime(clock, () => admission.hold(ms), ASKING_LIMITER);
      }
    } catch (error) {
      report(error, running.job);
    }
    return this.#failed(running, thrown, limiterIn);
  }

  /** Never throws, whatever the handler or a back-off strategy threw. */
  #failed(running: InFlightJob, thrown: unknown, limiterIn: number): Outcome {
    const { admission, report, settings } = this.#options;
    const { random, backoffs, maxHolds, clock } = settings;
    const policy = {
      random,
      backoffs,
      maxHolds,
      limitKeys: admission.limits.map(({ key }) => key),
      called: running.called,
      settled: running.settled,
      wall: clock.wall(),
      limiterIn,
      report: (error: JobError) => report(error, running.job),
    };
    try {
      return failed(running.job, thrown, running.abortCause, policy);
    } catch (error) {
      report(error, running.job);
      const plain = new JobError("the handler threw a value that cannot be read");
      return failed(running.job, plain, running.abortCause, { ...policy, backoffs: new Map() });
    }
  }

  #settle(running: InFlightJob, outcome: Outcome): void {
    if (running.over) return;
    running.end();
    const { grant, call } = running;
    if (grant !== undefined) {
      inBackground(() => (running.called ? grant.release() : grant.cancel()), this.#options.report, running.job);
    }
    this.#options.settled(running, outcome);
    if (call === undefined) return;
    call.left -= 1;
    if (call.left === 0) this.#endCall(call);
  }

  #endCall(call: Call): void {
    if (call.ended) return;
    call.ended = true;
    this.#options.callEnded(this.#options.settings.clock.now() - call.beganAt);
  }
}

/** Resolves when all jobs are over, even if their handler still runs. */
function whenOver(jobs: readonly InFlightJob[]): Promise<undefined> {
  return new Promise((resolve) => {
    let left = jobs.length;
    for (const running of jobs) running.atEnd(() => --left === 0 && resolve(undefined));
  });
}

/** `instanceof`, for values that may throw when they are read. */
function isAbout(thrown: unknown, ...kinds: readonly (abstract new (...args: never[]) => unknown)[]): boolean {
  try {
    return kinds.some((kind) => thrown instanceof kind);
  } catch {
    return false;
  }
}
