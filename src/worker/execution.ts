import { afterAll, type Clock } from "../core/clock.ts";
import { JobError, PermanentJobError, RetryableJobError } from "../core/errors.ts";
import { fromJson } from "../core/json.ts";
import type { Random } from "../core/random.ts";
import type { BackoffStrategy } from "../core/retry.ts";
import { RateLimitedError } from "../limiter/rate-limited-error.ts";
import type { Outcome } from "../storage/job-storage.ts";
import type { Admission } from "./admission.ts";
import { type BatchContext, partOf } from "./batch.ts";
import { Context, type JobView, viewOf } from "./context.ts";
import type { BatchHandler, Handler, Handlers } from "./handlers.ts";
import { failed, givenBack, succeeded } from "./outcome.ts";
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
  readonly limitKeys: readonly string[];
  readonly admission: Admission;
  /** How a job ended has been decided. Called once for each. */
  readonly settled: (running: RunningJob, outcome: Outcome) => void;
  /** A handler has returned, or is waited for no longer. Called once for each call. */
  readonly callEnded: () => void;
  readonly report: (error: unknown) => void;
}

/** How a handler ended for one job. */
type End = { readonly value: unknown } | { readonly thrown: unknown };

/** Calls handlers, keeps their time, and decides how their jobs ended. */
export class Execution {
  readonly #options: ExecutionOptions;

  constructor(options: ExecutionOptions) {
    this.#options = options;
  }

  /** Starts one call for these jobs: one, or a batch of one type or several. */
  start(jobs: readonly RunningJob[]): void {
    const call: Call = { left: jobs.length, ended: false };
    for (const running of jobs) {
      running.call = call;
      this.#keepTime(running);
    }
    const done = this.#options.batch ? this.#runBatch(jobs) : this.#runOne(jobs[0]!);
    done.catch(this.#options.report).finally(() => this.#endCall(call));
  }

  /** Waits no longer for its handler. */
  abandon(running: RunningJob): void {
    this.#finish(running, { thrown: running.signal.reason });
  }

  async #runOne(running: RunningJob): Promise<void> {
    const view = this.#viewOf(running);
    if (view === undefined) return;
    const handler = this.#options.handlers.of(view.type) as Handler | undefined;
    if (handler === undefined) return this.#unknown(running);
    let end: End;
    try {
      const started = running.grant?.start();
      if (started !== undefined) await started;
      // Told to stop before it began: a handler that only listens would never hear of it.
      running.signal.throwIfAborted();
      end = { value: await handler(view, new Context(running.job, running.signal, this.#options.reporter)) };
    } catch (thrown) {
      end = { thrown };
    }
    this.#finish(running, end);
  }

  /** A handler gets jobs of its own type: a claim for several types is split. */
  async #runBatch(jobs: readonly RunningJob[]): Promise<void> {
    const byHandler = new Map<BatchHandler, { running: RunningJob; view: JobView }[]>();
    for (const running of jobs) {
      const view = this.#viewOf(running);
      if (view === undefined) continue;
      const handler = this.#options.handlers.of(view.type) as BatchHandler | undefined;
      if (handler === undefined) {
        this.#unknown(running);
        continue;
      }
      const together = byHandler.get(handler) ?? [];
      together.push({ running, view });
      byHandler.set(handler, together);
    }
    await Promise.all(Array.from(byHandler, ([handler, parts]) => this.#callBatch(handler, parts)));
  }

  async #callBatch(
    handler: BatchHandler,
    parts: readonly { readonly running: RunningJob; readonly view: JobView }[],
  ): Promise<void> {
    let returned: unknown;
    let thrown: { readonly thrown: unknown } | undefined;
    try {
      for (const { running } of parts) await running.grant?.start();
      returned = await handler(
        parts.map(({ view }) => view),
        this.#batchContext(parts),
      );
    } catch (error) {
      thrown = { thrown: error };
    }
    for (const [i, { running }] of parts.entries()) {
      this.#finish(running, thrown ?? partOf(returned, i, parts.length));
    }
  }

  #batchContext(parts: readonly { readonly running: RunningJob; readonly view: JobView }[]): BatchContext {
    const all = new AbortController();
    let left = parts.length;
    for (const { running } of parts) {
      running.signal.addEventListener("abort", () => {
        left -= 1;
        if (left === 0) all.abort(running.signal.reason);
      });
    }
    const contexts = new Map(
      parts.map(({ running, view }) => [view, new Context(running.job, running.signal, this.#options.reporter)]),
    );
    return {
      signal: all.signal,
      of: (job) => {
        const context = contexts.get(job);
        if (context === undefined) throw new JobError("that job is not in this batch");
        return context;
      },
    };
  }

  /** What the handler gets to see; undefined: its data is no JSON, and it is dead. */
  #viewOf(running: RunningJob): JobView | undefined {
    const data = fromJson(running.job.data);
    if (data !== undefined) return viewOf(running.job, data);
    this.#finish(running, { thrown: new PermanentJobError("the data of the job is no JSON") });
    return undefined;
  }

  /** A storage gave what was not asked for: others may know what to do with it. */
  #unknown(running: RunningJob): void {
    this.#options.report(new JobError(`there is no handler for type "${running.job.type}"`));
    running.end();
    this.#settle(running, givenBack(running.job, this.#options.limitKeys));
  }

  /** Tells the handler to stop when its time is up; one that does not listen is waited for as long as a lease. */
  #keepTime(running: RunningJob): void {
    const { clock, leaseMs } = this.#options;
    const { timeout, deadline, startedAt } = running.job;
    const stop = (cut: "timeout" | "deadline") => () => {
      running.stop(cut);
      running.addTimer(afterAll(clock, leaseMs, () => this.abandon(running)));
    };
    if (timeout !== null) running.addTimer(afterAll(clock, timeout, stop("timeout")));
    if (deadline !== null) {
      running.addTimer(afterAll(clock, Math.max(0, deadline - (startedAt ?? deadline)), stop("deadline")));
    }
  }

  #finish(running: RunningJob, end: End): void {
    if (running.over) return;
    running.end();
    const { cut } = running;
    // A job that was cancelled or took too long is so, whatever its handler made of it in the end.
    const counts = cut === undefined || cut === "stopped" || cut === "lost";
    if ("value" in end && counts) return this.#settle(running, succeeded(running.job, end.value));
    const thrown: unknown = "thrown" in end ? end.thrown : running.signal.reason;
    if (cut === undefined && (thrown instanceof RetryableJobError || thrown instanceof RateLimitedError)) {
      this.#consultLimiter(running, thrown).catch(this.#options.report);
    } else {
      this.#settle(running, this.#failed(running, thrown, 0));
    }
  }

  /** What the limiter says about the next start, or is told about it, before the job goes back. */
  async #consultLimiter(running: RunningJob, thrown: RetryableJobError | RateLimitedError): Promise<void> {
    const { admission, clock, report } = this.#options;
    let limiterIn = 0;
    try {
      if (thrown instanceof RetryableJobError) {
        if (thrown.retryDate === undefined) limiterIn = await admission.nextIn();
      } else if (thrown.limit === undefined) {
        await admission.hold(thrown.holdMs(clock.wall()) ?? 0);
      }
    } catch (error) {
      report(error);
    }
    this.#settle(running, this.#failed(running, thrown, limiterIn));
  }

  #failed(running: RunningJob, thrown: unknown, limiterIn: number): Outcome {
    const { random, strategies, maxHolds, limitKeys, clock } = this.#options;
    const policy = { random, strategies, maxHolds, limitKeys, wall: clock.wall(), limiterIn };
    try {
      return failed(running.job, thrown, running.cut, policy);
    } catch (error) {
      // A back-off strategy of the user's own threw.
      this.#options.report(error);
      return failed(running.job, thrown, running.cut, { ...policy, strategies: new Map() });
    }
  }

  #settle(running: RunningJob, outcome: Outcome): void {
    const flushed = this.#options.reporter.flushed;
    if (flushed === undefined) this.#settled(running, outcome);
    else void flushed.then(() => this.#settled(running, outcome));
  }

  #settled(running: RunningJob, outcome: Outcome): void {
    const released = running.grant?.release();
    if (released !== undefined) released.catch(this.#options.report);
    this.#options.settled(running, outcome);
    const { call } = running;
    if (call === undefined) return;
    call.left -= 1;
    if (call.left === 0) this.#endCall(call);
  }

  #endCall(call: Call): void {
    if (call.ended) return;
    call.ended = true;
    this.#options.callEnded();
  }
}
