import type { JobRecord } from "../core/job.ts";
import type { LimiterGrant } from "./admission.ts";
import type { ClaimedStarts } from "./claimed-starts.ts";
import { type AbortCause, abortReason } from "./outcome.ts";

/** One call of a handler. */
export interface Call {
  /** Jobs whose end is not decided yet. */
  left: number;
  /** On the monotonic clock. */
  readonly beganAt: number;
  ended: boolean;
}

/** How a job came to this worker. */
export interface Origin {
  readonly claimedAt: number;
  readonly leasedUntil: number;
  readonly grant: LimiterGrant | undefined;
  /** The starts of its claim, if the job counts under limits that go by time. */
  readonly starts: ClaimedStarts | undefined;
}

const NONE: readonly string[] = [];

/** A job that this worker has claimed and not settled. */
export class InFlightJob {
  readonly job: JobRecord;
  /** What the worker's limiter granted for it. */
  readonly grant: LimiterGrant | undefined;
  readonly #starts: ClaimedStarts | undefined;
  readonly #controller = new AbortController();
  /** When the claim was answered, on the monotonic clock. */
  readonly claimedAt: number;
  /** Until when the lease certainly holds, on the monotonic clock: counted from before it was asked for. */
  leasedUntil: number;
  /** The call that it is part of, once it has been started. */
  call: Call | undefined;
  /** Why the job was aborted, if it was. */
  abortCause: AbortCause | undefined;
  /** Its handler was called: from then on its start counts, however the job ends. */
  called = false;
  /** The names of the weights that its handler settled. */
  settled = NONE;
  /** Its outcome is decided; what its handler still does changes nothing. */
  over = false;
  readonly #atEnd: (() => void)[] = [];

  constructor(job: JobRecord, { claimedAt, leasedUntil, grant, starts }: Origin) {
    this.job = job;
    this.claimedAt = claimedAt;
    this.leasedUntil = leasedUntil;
    this.grant = grant;
    this.#starts = starts;
  }

  /** Was its start granted too long ago? Then its handler is not called. */
  get late(): boolean {
    return this.#starts?.late === true || this.grant?.late === true;
  }

  /** Its handler has been called just now: windows count from here. Returns by how many milliseconds that was too late. */
  wasCalled(): number {
    this.grant?.called();
    return this.#starts?.called() ?? 0;
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Aborts the handler's signal. The first cause holds. */
  abort(cause: AbortCause): void {
    if (this.over || this.abortCause !== undefined) return;
    this.abortCause = cause;
    this.#controller.abort(abortReason(cause, this.job));
  }

  /** Runs `step` when the job is over, at once if it is: to cancel a timer, for example. */
  atEnd(step: () => void): void {
    if (this.over) step();
    else this.#atEnd.push(step);
  }

  end(): void {
    this.over = true;
    if (!this.called) this.#starts?.dropped();
    for (const step of this.#atEnd.splice(0)) step();
  }
}
