import { type Clock, type Mark, mostSince } from "../core/clock.ts";
import type { Confirmations } from "../storage/confirmations.ts";
import type { Grant } from "../storage/grants.ts";

export interface ClaimedStartsOptions {
  readonly clock: Clock;
  /** When the claim was sent for the first time. */
  readonly asked: Mark;
  /** The `grantTtlMs` of the claim: each call is made within so long of `asked`, or never. */
  readonly grantTtlMs: number;
  readonly grant: Grant;
  /** How many jobs the claim answered. */
  readonly count: number;
  /** Gets the confirmation when the last handler was called, or never will be. */
  readonly confirmations: Confirmations;
}

/**
 * The starts of one claim under limits that go by time. The storage counts them at the last possible instant of their call, until a
 * confirmation gives the instant of the slowest one.
 */
export class ClaimedStarts {
  readonly #options: ClaimedStartsOptions;
  /** How many are neither called nor given back. */
  #left: number;
  /** How long after `asked` the latest call was made; 0: none was made. */
  #calledIn = 0;

  constructor(options: ClaimedStartsOptions) {
    this.#options = options;
    this.#left = options.count;
  }

  /** Is it too late to call a handler? Read in the same synchronous step as the call. */
  get late(): boolean {
    const { clock, asked, grantTtlMs } = this.#options;
    return mostSince(clock, asked) > grantTtlMs;
  }

  /**
   * A handler was called just now: the clock is read after its synchronous part, so never before its first statement. Returns by how
   * many milliseconds that was too late, because the process stood still between check and call; 0: it was not.
   */
  called(): number {
    const { clock, asked, grantTtlMs } = this.#options;
    const calledIn = mostSince(clock, asked);
    this.#calledIn = Math.max(this.#calledIn, calledIn);
    this.#done();
    return Math.max(0, calledIn - grantTtlMs);
  }

  /** One of the handlers will not be called. */
  dropped(): void {
    this.#done();
  }

  #done(): void {
    this.#left -= 1;
    if (this.#left > 0) return;
    const { grant, confirmations } = this.#options;
    confirmations.add({ grant: grant.id, calledInMs: this.#calledIn }, grant.confirmInMs);
  }
}
