import type { Clock } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import type { LimitStorage } from "../../storage/limit-storage.ts";

/**
 * Renews the permits of one limiter: one timer for all of them, three renewals in the time that the storage keeps
 * them by itself, and none while there are no permits.
 *
 * A permit that is lost (the process was suspended for longer, or could not reach the storage) has no slots any more, and
 * cannot be restored: it still counts as a start, and its release changes nothing.
 */
export class Renewals {
  readonly #limits: LimitStorage;
  readonly #clock: Clock;
  readonly #ttlMs: number;
  readonly #tokens = new Set<string>();
  #cancelTimer: (() => void) | undefined;
  #renewing = false;
  #renewedAt = 0;

  constructor(limits: LimitStorage, clock: Clock, ttlMs: number) {
    this.#limits = limits;
    this.#clock = clock;
    this.#ttlMs = ttlMs;
  }

  /** Renews this permit until `end`. */
  begin(token: string): void {
    this.#tokens.add(token);
    if (this.#cancelTimer !== undefined || this.#renewing) return;
    this.#renewedAt = this.#clock.now();
    this.#wait();
  }

  end(token: string): void {
    this.#tokens.delete(token);
    if (this.#tokens.size === 0) this.#stop();
  }

  #wait(): void {
    this.#cancelTimer = this.#clock.after(this.#ttlMs / 3, () => void this.#renew());
  }

  #stop(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
  }

  /** Never rejects: a failed renewal is retried until the permit has expired. */
  async #renew(): Promise<void> {
    this.#cancelTimer = undefined;
    this.#renewing = true;
    const askedAt = this.#clock.now();
    const asked = [...this.#tokens];
    try {
      const renewal = () => this.#limits.renew(asked, this.#ttlMs);
      const lost = await inTime(this.#clock, renewal, { withinMs: this.#ttlMs / 3 });
      for (const token of lost) this.#tokens.delete(token);
      this.#renewedAt = askedAt;
    } catch {
      if (this.#clock.now() - this.#renewedAt > this.#ttlMs) for (const token of asked) this.#tokens.delete(token);
    }
    this.#renewing = false;
    if (this.#tokens.size > 0) this.#wait();
  }
}
