import { afterAll, type Clock } from "../core/clock.ts";
import { HoldError, JobError, LateCallError, PermanentJobError, RetryableJobError } from "../core/errors.ts";
import { fromJson } from "../core/json.ts";
import type { Random } from "../core/random.ts";
import type { BackoffStrategy } from "../core/retry.ts";
import type { Outcome } from "../storage/job-storage.ts";
import type { Admission, Grant } from "./admission.ts";
import { batchContext, type BatchPart, partOf } from "./batch.ts";
import type { JobReference } from "./complaints.ts";
import { Context, type JobView, viewOf, warningOf } from "./context.ts";
import { inTime } from "../core/deadline.ts";
import type { BatchHandler, Handler, Handlers } from "./handlers.ts";
import { failed, givenBack, putOff, succeeded } from "./outcome.ts";
import type { Reporter } from "./reporter.ts";
import type { Call, RunningJob } from "./running.ts";

export interface ExecutionOptions {
  readonly handlers: Handlers<Handler | BatchHandler>;
  readonly batch: boolean;
  readonly clock: Clock;
  readonly leaseMs: number;
  readonly reporter: Reporter;
  readonly random: Random;
  readonly strategies: ReadonlyMap<string, BackoffStrategy>;
  readonly maxHolds: number;
  readonly admission: Admission;
  /** How a job ended has been decided. Called once for each. */
  readonly settled: (running: RunningJob, outcome: Outcome) => void;
  /** A handler has returned after so long, or is waited for no longer. Called once for each call. */
  readonly callEnded: (tookMs: number) => void;
  readonly report: (error: unknown, job?: JobReference) => void;
}

/** How a handler ended for one job. */
type End = { readonly value: unknown } | { readonly thrown: unknown };

/** A limiter that is asked about a failed job has so long to answer; then it is decided without. */
const ASKING_LIMITER = { withinMs: 5_000, who: "the limiter" };
/** A job whose limiter could not be told of its start is tried again after this. */
const PUT_OFF_MS = 1_000;

/** Calls handlers, keeps their time, and decides how their jobs ended. */
export class Execution {
  readonly #options: ExecutionOptions;
  /** Handlers whose jobs were given back because others of their batch took too long, in the order in which that happened. */
  readonly #passedOver = new Set<BatchHandler>();

  constructor(options: ExecutionOptions) {
    this.#options = options;
  }

  /** Starts one call for these jobs: one, or a batch. */
  start(jobs: readonly RunningJob[]): void {
    const call = { left: jobs.length, beganAt: this.#options.clock.now(), ended: false };
    for (const running of jobs) running.call = call;
    void this.#run(jobs, call);
  }

  /** Waits no longer: neither for its handler nor for anybody who is asked about it. */
  abandon(running: RunningJob): void {
    if (!running.over) this.#settle(running, this.#failed(running, running.signal.reason, 0));
  }

  /** Never rejects. */
  async #run(jobs: readonly RunningJob[], call: Call): Promise<void> {
    try {
      await (this.#options.batch ? this.#runBatch(jobs) : this.#runOne(jobs));
    } catch (error) {
      // Whatever it was: no job is left behind.
      this.#options.report(error, jobs.length === 1 ? jobs[0]!.job : undefined);
      for (const running of jobs) this.#settle(running, this.#failed(running, error, 0));
    }
    this.#endCall(call);
  }

  /** Nothing is waited for but what has to be: every wait takes longer than all else that is done for a short job. */
  async #runOne(jobs: readonly RunningJob[]): Promise<void> {
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
   * A handler gets jobs of its own types: a batch for several handlers is several calls, one after the other. Under limits the
   * last of them may come too late: a handler that was passed over is called first in the next batch.
   */
  async #runBatch(jobs: readonly RunningJob[]): Promise<void> {
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
    // One that was given up while others began is somebody else's by now, and counts nowhere.
    const ours = begun.filter(({ running }) => !running.over);
    const parts = ours.filter(({ running }) => !this.#giveBackLate(running));
    if (parts.length === 0) {
      if (ours.length > 0) this.#passedOver.add(handler);
      return;
    }
    this.#passedOver.delete(handler);
    const views = parts.map(({ view }) => view);
    const jobs = parts.map(({ running }) => running);
    const call = this.#call(() => handler(views, batchContext(parts)), jobs);
    // A handler that does not listen holds up the others for no longer than its jobs are waited for.
    const end = await Promise.race([call, whenOver(jobs)]);
    if (end === undefined) return;
    const ends = jobs.map((_, i) => ("value" in end ? partOf(end.value, i, jobs.length) : end));
    await Promise.all(jobs.map(async (running, i) => this.#finish(running, ends[i]!)));
  }

  /** Its start was granted too long ago: it counts nowhere, and is asked for again. Nothing is waited for after this look. */
  #giveBackLate(running: RunningJob): boolean {
    if (!running.late) return false;
    this.#settle(running, givenBack(running.job));
    return true;
  }

  /** Calls, and says when: whatever came between the grant and this moment, windows count from here. */
  async #call(handler: () => unknown, jobs: readonly RunningJob[]): Promise<End> {
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

  #wasCalled(running: RunningJob): void {
    const lateBy = running.wasCalled();
    if (lateBy > 0) this.#options.report(new LateCallError(running.job.id, lateBy), running.job);
  }

  /** Is the handler to be called? The limiter is told first; a job that was told to stop before it began is at its end. */
  #begin(running: RunningJob): boolean | Promise<boolean> {
    if (running.over) return false;
    if (this.#deadlineIn(running) === 0) running.stop("deadline");
    if (running.cut !== undefined) return this.#endUnbegun(running);
    if (running.grant !== undefined) return this.#tell(running, running.grant);
    this.#keepTime(running);
    return true;
  }

  async #tell(running: RunningJob, grant: Grant): Promise<boolean> {
    try {
      const told = grant.start();
      if (told !== undefined) await told;
    } catch (error) {
      this.#options.report(error, running.job);
      this.#settle(running, putOff(running.job, PUT_OFF_MS));
      return false;
    }
    if (running.over) {
      // It was given up while its limiter was being told: that has ended, too.
      this.#giveBack(running, () => grant.release());
      return false;
    }
    if (running.cut !== undefined) return this.#endUnbegun(running);
    this.#keepTime(running);
    return true;
  }

  async #endUnbegun(running: RunningJob): Promise<false> {
    await this.#finish(running, { thrown: running.signal.reason });
    return false;
  }

  #contextOf(running: RunningJob): Context {
    return new Context(running, this.#options.reporter);
  }

  /** What the handler gets to see; undefined: there is none, or the data is no JSON, and that is settled. */
  #viewOf(running: RunningJob): JobView | undefined {
    const { job } = running;
    if (this.#options.handlers.of(job.type) === undefined) {
      // A storage gave what was not asked for: others may know what to do with it.
      this.#options.report(new JobError(`there is no handler for type "${job.type}"`), job);
      this.#settle(running, givenBack(job));
      return undefined;
    }
    const data = fromJson(job.data);
    if (data !== undefined) return viewOf(job, data);
    this.#settle(running, this.#failed(running, new PermanentJobError("the data of the job is no JSON"), 0));
    return undefined;
  }

  /** Tells the handler to stop when its time is up; one that does not listen is waited for as long as a lease. */
  #keepTime(running: RunningJob): void {
    const { clock, leaseMs } = this.#options;
    const { timeout } = running.job;
    const stop = (cut: "timeout" | "deadline") => () => {
      running.stop(cut);
      running.atEnd(afterAll(clock, leaseMs, () => this.abandon(running)));
    };
    if (timeout !== null) running.atEnd(afterAll(clock, timeout, stop("timeout")));
    const deadlineIn = this.#deadlineIn(running);
    if (deadlineIn !== undefined) running.atEnd(afterAll(clock, deadlineIn, stop("deadline")));
  }

  /** How much time is left until its deadline, if it has one: from its start, and it may have waited in our hands since. */
  #deadlineIn({ job, takenAt }: RunningJob): number | undefined {
    const { deadline, startedAt } = job;
    if (deadline === null || startedAt === null) return undefined;
    return Math.max(0, deadline - startedAt - (this.#options.clock.now() - takenAt));
  }

  /** Decides how it ended, and hands that on once all that it reported is written. */
  #finish(running: RunningJob, end: End): Promise<void> | undefined {
    if (running.over) return undefined;
    const outcome = this.#outcome(running, end);
    const written = this.#options.reporter.written(running.job.token);
    if (outcome instanceof Promise || written !== undefined) return this.#finishLater(running, outcome);
    this.#settle(running, outcome);
    return undefined;
  }

  async #finishLater(running: RunningJob, outcome: Outcome | Promise<Outcome>): Promise<void> {
    const decided = await outcome;
    await this.#options.reporter.written(running.job.token);
    this.#settle(running, decided);
  }

  #outcome(running: RunningJob, end: End): Outcome | Promise<Outcome> {
    const { cut } = running;
    // A job that was cancelled or took too long is so, whatever its handler made of it in the end.
    const counts = cut === undefined || cut === "stopped" || cut === "lost";
    if ("value" in end && counts) return this.#succeeded(running, end.value);
    const thrown: unknown = "thrown" in end ? end.thrown : running.signal.reason;
    const asks = cut === undefined && isAbout(thrown, RetryableJobError, HoldError);
    return asks ? this.#consultLimiter(running, thrown) : this.#failed(running, thrown, 0);
  }

  #succeeded({ job }: RunningJob, value: unknown): Outcome {
    const { outcome, warning } = succeeded(job, value);
    if (warning !== undefined) {
      // It is written before the job is settled, while its lease is held.
      void this.#options.reporter.report({ id: job.id, token: job.token, ...warningOf("result", warning) });
    }
    return outcome;
  }

  /** What the limiter says about the next start, or is told about it, before the job goes back. Never rejects. */
  async #consultLimiter(running: RunningJob, thrown: unknown): Promise<Outcome> {
    const { admission, clock, report } = this.#options;
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

  /** Never throws, whatever was thrown and whatever strategies for back-off make of it. */
  #failed(running: RunningJob, thrown: unknown, limiterIn: number): Outcome {
    const { random, strategies, maxHolds, admission, clock, report } = this.#options;
    const limitKeys = admission.limits.map(({ key }) => key);
    const { called, settled } = running;
    const policy = {
      random,
      strategies,
      maxHolds,
      limitKeys,
      called,
      settled,
      wall: clock.wall(),
      limiterIn,
      report: (error: JobError) => report(error, running.job),
    };
    try {
      return failed(running.job, thrown, running.cut, policy);
    } catch (error) {
      report(error, running.job);
      const plain = new JobError("the job failed with something that cannot be looked at");
      return failed(running.job, plain, running.cut, { ...policy, strategies: new Map() });
    }
  }

  #settle(running: RunningJob, outcome: Outcome): void {
    if (running.over) return;
    running.end();
    const { grant, call } = running;
    if (grant !== undefined) this.#giveBack(running, () => (running.called ? grant.release() : grant.cancel()));
    this.#options.settled(running, outcome);
    if (call === undefined) return;
    call.left -= 1;
    if (call.left === 0) this.#endCall(call);
  }

  /** Tells a limiter, whatever it makes of that. */
  #giveBack({ job }: RunningJob, tell: () => Promise<void> | void): void {
    (async () => tell())().catch((error: unknown) => this.#options.report(error, job));
  }

  #endCall(call: Call): void {
    if (call.ended) return;
    call.ended = true;
    this.#options.callEnded(this.#options.clock.now() - call.beganAt);
  }
}

/** Resolves when all of them are over, whatever their handler still does. */
function whenOver(jobs: readonly RunningJob[]): Promise<undefined> {
  return new Promise((resolve) => {
    let left = jobs.length;
    for (const running of jobs) running.atEnd(() => --left === 0 && resolve(undefined));
  });
}

/** `instanceof`, for things that may not like to be asked. */
function isAbout(thrown: unknown, ...kinds: readonly (abstract new (...args: never[]) => unknown)[]): boolean {
  try {
    return kinds.some((kind) => thrown instanceof kind);
  } catch {
    return false;
  }
}
