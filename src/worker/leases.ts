import type { Clock } from "../core/clock.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import { inTime } from "./deadline.ts";
import type { RunningJob } from "./running.ts";

/** So much of a lease is left when its job is told to stop: it is to be over before somebody else begins. */
const MARGIN = 0.1;

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
    if (this.#cancelTimer === undefined) this.#schedule();
  }

  stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  #schedule(): void {
    const due = this.#clock.now() + this.#leaseMs / 3;
    this.#cancelTimer = this.#clock.after(this.#leaseMs / 3, () => {
      this.#cancelTimer = undefined;
      const late = this.#clock.now() - due;
      if (late > this.#leaseMs / 3) {
        this.#warn(new Error(`the event loop was blocked, or the process paused, for ${Math.round(late)} ms`));
      }
      this.#giveUpExpired();
      if (this.#running.size === 0) return;
      this.#schedule();
      void this.#renew();
    });
  }

  /** By our own clock, which runs on when the storage cannot be reached. */
  #giveUpExpired(): void {
    const latest = this.#clock.now() + this.#leaseMs * MARGIN;
    for (const running of this.#running.values()) if (running.leasedUntil <= latest) running.stop("lost");
  }

  async #renew(): Promise<void> {
    if (this.#renewing) return;
    this.#renewing = true;
    const renewed = [...this.#running.values()].filter(({ over, cut }) => !over && cut !== "lost");
    const until = this.#clock.now() + this.#leaseMs;
    try {
      const leases = renewed.map(({ job: { id, token } }) => ({ id, token }));
      const { lost, cancelled } = await inTime(this.#clock, this.#storage.heartbeat(leases, this.#leaseMs));
      const gone = new Set(lost);
      for (const running of renewed) {
        if (gone.has(running.job.id)) running.stop("lost");
        else running.leasedUntil = until;
      }
      const unwanted = new Set(cancelled);
      for (const running of renewed) if (unwanted.has(running.job.id)) running.stop("cancelled");
    } catch (error) {
      this.#warn(error);
    } finally {
      this.#renewing = false;
    }
  }
}
