import { AbortSignalJobError, JobTimeoutError, StaleLeaseError } from "../core/errors.ts";
import type { JobRecord } from "../core/job.ts";
import type { Grant } from "./admission.ts";
import type { ClaimedStarts } from "./claimed-starts.ts";
import type { Cut } from "./outcome.ts";

/** One call of a handler. */
export interface Call {
  /** Jobs whose end is not decided yet. */
  left: number;
  /** On the monotonic clock. */
  readonly beganAt: number;
  ended: boolean;
}

/** How a job came into the hands of this worker. */
export interface Taken {
  readonly takenAt: number;
  readonly leasedUntil: number;
  readonly grant: Grant | undefined;
  /** Those of its claim, if it counts under limits that go by time. */
  readonly starts: ClaimedStarts | undefined;
}

const NONE: readonly string[] = [];

/** A job in the hands of this worker. */
export class RunningJob {
  readonly job: JobRecord;
  /** What its limiter gave for it. */
  readonly grant: Grant | undefined;
  readonly #starts: ClaimedStarts | undefined;
  readonly #controller = new AbortController();
  /** When it came into our hands, on the monotonic clock. */
  readonly takenAt: number;
  /** Until when the lease is ours for certain, on the monotonic clock: counted from before it was asked for. */
  leasedUntil: number;
  /** The call that it is part of, once it has been started. */
  call: Call | undefined;
  /** Why it was told to stop, if it was. */
  cut: Cut | undefined;
  /** Its handler was called: from then on its start counts, whatever becomes of it. */
  called = false;
  /** The weights, by name, that its handler said what it used of. */
  settled = NONE;
  /** How it ended has been handed on; whatever its handler still does is of no account. */
  over = false;
  readonly #atEnd: (() => void)[] = [];

  constructor(job: JobRecord, { takenAt, leasedUntil, grant, starts }: Taken) {
    this.job = job;
    this.takenAt = takenAt;
    this.leasedUntil = leasedUntil;
    this.grant = grant;
    this.#starts = starts;
  }

  /** Was its start granted too long ago? Then its handler is not called any more. */
  get late(): boolean {
    return this.#starts?.late === true || this.grant?.late === true;
  }

  /** Its handler has been called just now: windows count from here. The answer: by how much that was too late. */
  wasCalled(): number {
    this.grant?.called();
    return this.#starts?.called() ?? 0;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Tells the handler to stop. The first reason holds. */
  stop(cut: Cut): void {
    if (this.over || this.cut !== undefined) return;
    this.cut = cut;
    this.#controller.abort(this.#reason(cut));
  }

  /** Called when the job is over: what calls off a timer, for one. */
  atEnd(step: () => void): void {
    if (this.over) step();
    else this.#atEnd.push(step);
  }

  end(): void {
    this.over = true;
    if (!this.called) this.#starts?.dropped();
    for (const step of this.#atEnd.splice(0)) step();
  }

  #reason(cut: Cut): Error {
    const { id, timeout } = this.job;
    switch (cut) {
      case "cancelled":
        return new AbortSignalJobError(`job ${id} was cancelled`);
      case "stopped":
        return new AbortSignalJobError("the worker stops");
      case "timeout":
        return new JobTimeoutError(`the attempt took longer than ${timeout} ms`);
      case "deadline":
        return new JobTimeoutError("the deadline of the job has passed");
      case "lost":
        break;
    }
    return new StaleLeaseError(id);
  }
}
