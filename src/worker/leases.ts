import type { Clock } from "../core/clock.ts";
import { inTime } from "../core/deadline.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import type { ReportError } from "./ask.ts";
import type { InFlightJob } from "./in-flight-job.ts";
import type { WorkerSettings } from "./options.ts";

/** A job is aborted when so much of its lease is left: its handler should end before another worker starts the job. */
const MARGIN = 0.1;
/** A heartbeat that takes longer than this part of a lease is given up, before the next one is due. */
const ANSWERED = 0.3;

/**
 * Renews the leases of a worker's jobs by heartbeats, all in one call, three times in the length of a lease. A heartbeat that fails
 * is tried again; a job whose lease is lost, or may be, is aborted.
 */
export class Leases {
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #running: ReadonlyMap<number, InFlightJob>;
  readonly #report: ReportError;
  #cancelTimer: (() => void) | undefined;
  #renewing = false;
  #renewAt = 0;
  /** When the timer is to fire; infinite without a timer. */
  #dueAt = Number.POSITIVE_INFINITY;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(
    { storage, clock, lease }: WorkerSettings,
    running: ReadonlyMap<number, InFlightJob>,
    report: ReportError,
  ) {
    this.#storage = storage;
    this.#clock = clock;
    this.#leaseMs = lease;
    this.#running = running;
    this.#report = report;
  }

  /** A job was added. */
  watch(): void {
    if (this.#cancelTimer !== undefined) return;
    this.#renewAt = this.#clock.now() + this.#leaseMs / 3;
    this.#schedule();
  }

  /**
   * To be called before a job starts. If the process was paused, this reports it and aborts the jobs that were lost meanwhile: the next
   * handler may block the event loop, and this timer with it.
   */
  check(): void {
    const now = this.#clock.now();
    if (now - this.#checkedAt >= this.#leaseMs / 3) this.#look(now);
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#forgetTimer();
  }

  /** Sets the timer: for the next heartbeat, or for a lease that is nearly over because it could not be renewed. */
  #schedule(): void {
    const now = this.#clock.now();
    let next = this.#renewAt;
    for (const { leasedUntil, abortCause } of this.#running.values()) {
      if (abortCause !== "lost") next = Math.min(next, leasedUntil - this.#leaseMs * MARGIN);
    }
    const ms = Math.max(1, next - now);
    this.#dueAt = now + ms;
    this.#cancelTimer = this.#clock.after(ms, () => this.#tick());
  }

  #forgetTimer(): void {
    this.#cancelTimer = undefined;
    this.#dueAt = Number.POSITIVE_INFINITY;
  }

  #tick(): void {
    const now = this.#clock.now();
    this.#look(now);
    this.#forgetTimer();
    if (this.#running.size === 0) return;
    if (now >= this.#renewAt) {
      this.#renewAt = now + this.#leaseMs / 3;
      void this.#renew();
    }
    this.#schedule();
  }

  /** Reports a pause of the process, and aborts expired jobs, by the clock of the process: the storage may be unreachable. */
  #look(now: number): void {
    this.#checkedAt = now;
    const late = now - this.#dueAt;
    if (late > this.#leaseMs / 3) {
      this.#report(new Error(`the event loop was blocked, or the process paused, for ${Math.round(late)} ms`));
      // Each pause is reported once.
      this.#dueAt = now;
    }
    for (const running of this.#running.values()) {
      if (running.leasedUntil - this.#leaseMs * MARGIN <= now) running.abort("lost");
    }
  }

  async #renew(): Promise<void> {
    if (this.#renewing) return;
    this.#renewing = true;
    const renewed = this.#latest();
    const until = this.#clock.now() + this.#leaseMs;
    try {
      const leases = renewed.map(({ job: { id, token } }) => ({ id, token }));
      const ask = () => this.#storage.heartbeat(leases, this.#leaseMs);
      const { lost, cancelled } = await inTime(this.#clock, ask, { withinMs: this.#leaseMs * ANSWERED });
      const gone = new Set(lost);
      const toCancel = new Set(cancelled);
      for (const running of renewed) {
        if (gone.has(running.job.id)) running.abort("lost");
        else running.leasedUntil = until;
        if (toCancel.has(running.job.id)) running.abort("cancelled");
      }
    } catch (error) {
      this.#report(error);
    } finally {
      this.#renewing = false;
    }
  }

  /** The leases to renew: of a job that this worker lost and claimed again, only the latest. */
  #latest(): InFlightJob[] {
    const latest = new Map<string, InFlightJob>();
    for (const running of this.#running.values()) {
      const other = latest.get(running.job.id);
      const older = other !== undefined && other.job.token > running.job.token ? running : other;
      older?.abort("lost");
      if (older !== running) latest.set(running.job.id, running);
    }
    return [...latest.values()].filter(({ abortCause }) => abortCause !== "lost");
  }
}
