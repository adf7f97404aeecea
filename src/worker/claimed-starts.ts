import { type Clock, type Mark, mostSince } from "../core/clock.ts";
import type { Confirmation, Grant } from "../storage/grants.ts";

export interface ClaimedStartsOptions {
  readonly clock: Clock;
  /** When the claim was sent for the first time. */
  readonly asked: Mark;
  /** What the claim said: each call is made within so long of that, or never. */
  readonly grantTtlMs: number;
  readonly grant: Grant;
  /** How many jobs it brought. */
  readonly count: number;
  /** All of them were called, or never will be. */
  readonly confirm: (confirmation: Confirmation, inMs: number) => void;
}

/**
 * The starts of one claim under limits that go by time. The storage counts them as if they were called at the last moment;
 * when the last of them was called it is told when that was.
 */
export class ClaimedStarts {
  readonly #options: ClaimedStartsOptions;
  /** How many are neither called nor given back. */
  #left: number;
  /** How long the slowest call took; 0: none was made, and nothing has to be waited for. */
  #calledIn = 0;

  constructor(options: ClaimedStartsOptions) {
    this.#options = options;
    this.#left = options.count;
  }

  /** Is it too late to call a handler? Asked in the same step as the call. */
  get late(): boolean {
    const { clock, asked, grantTtlMs } = this.#options;
    return mostSince(clock, asked) > grantTtlMs;
  }

  /**
   * A handler was called just now: read after its synchronous part, so never before its first statement. The answer: by how
   * many milliseconds that was too late, because the process stood still within the step itself; 0: it was not.
   */
  called(): number {
    const { clock, asked, grantTtlMs } = this.#options;
    const calledIn = mostSince(clock, asked);
    this.#calledIn = Math.max(this.#calledIn, calledIn);
    this.#done();
    return Math.max(0, calledIn - grantTtlMs);
  }

  /** One of them is never called. */
  dropped(): void {
    this.#done();
  }

  #done(): void {
    this.#left -= 1;
    if (this.#left > 0) return;
    const { grant, confirm } = this.#options;
    confirm({ grant: grant.id, calledInMs: this.#calledIn }, grant.confirmInMs);
  }
}
