import type { Clock } from "../core/clock.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { inTime } from "../core/deadline.ts";
import type { RunningJob } from "./running.ts";

/** So much of a lease is left when its job is told to stop: it is to be over before somebody else begins. */
const MARGIN = 0.1;
/** A renewal that takes longer is given up: it is to be over before the next one is due. */
const ANSWERED = 0.3;

/**
 * Keeps the leases of a worker's jobs, all in one call, three times in the length of a lease. A renewal that fails is
 * tried again; a job whose lease is lost, or can no longer be known to be ours, is told to stop.
 */
export class Leases {
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #running: ReadonlyMap<number, RunningJob>;
  readonly #warn: (error: unknown) => void;
  #cancelTimer: (() => void) | undefined;
  #renewing = false;
  #renewAt = 0;
  /** When the timer was to fire; never, without one. */
  #dueAt = Number.POSITIVE_INFINITY;
  #checkedAt = Number.NEGATIVE_INFINITY;

  constructor(
    storage: JobStorage,
    clock: Clock,
    leaseMs: number,
    running: ReadonlyMap<number, RunningJob>,
    warn: (error: unknown) => void,
  ) {
    this.#storage = storage;
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#running = running;
    this.#warn = warn;
  }

  /** Something runs now. */
  watch(): void {
    if (this.#cancelTimer !== undefined) return;
    this.#renewAt = this.#clock.now() + this.#leaseMs / 3;
    this.#schedule();
  }

  /**
   * Something is about to begin. If the process was paused, that is reported and what was lost meanwhile is told to stop before:
   * the next handler may block the event loop, and this timer with it.
   */
  check(): void {
    const now = this.#clock.now();
    if (now - this.#checkedAt >= this.#leaseMs / 3) this.#look(now);
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#forgetTimer();
  }

  /** The next look: to renew, or because a lease is nearly over that could not be renewed. */
  #schedule(): void {
    const now = this.#clock.now();
    let next = this.#renewAt;
    for (const { leasedUntil, cut } of this.#running.values()) {
      if (cut !== "lost") next = Math.min(next, leasedUntil - this.#leaseMs * MARGIN);
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

  /** Was the process paused, and what has expired? By our own clock, which runs on when the storage cannot be reached. */
  #look(now: number): void {
    this.#checkedAt = now;
    const late = now - this.#dueAt;
    if (late > this.#leaseMs / 3) {
      this.#warn(new Error(`the event loop was blocked, or the process paused, for ${Math.round(late)} ms`));
      // Said once: whatever comes after this is another pause.
      this.#dueAt = now;
    }
    for (const running of this.#running.values()) {
      if (running.leasedUntil - this.#leaseMs * MARGIN <= now) running.stop("lost");
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
      const unwanted = new Set(cancelled);
      for (const running of renewed) {
        if (gone.has(running.job.id)) running.stop("lost");
        else running.leasedUntil = until;
        if (unwanted.has(running.job.id)) running.stop("cancelled");
      }
    } catch (error) {
      this.#warn(error);
    } finally {
      this.#renewing = false;
    }
  }

  /** What is to be renewed: of a job that this worker has lost and won again, the latest lease alone. */
  #latest(): RunningJob[] {
    const latest = new Map<string, RunningJob>();
    for (const running of this.#running.values()) {
      const other = latest.get(running.job.id);
      const older = other !== undefined && other.job.token > running.job.token ? running : other;
      older?.stop("lost");
      if (older !== running) latest.set(running.job.id, running);
    }
    return [...latest.values()].filter(({ cut }) => cut !== "lost");
  }
}
