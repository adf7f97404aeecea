import { STEP_BYTES } from "../storage/step-bytes.ts";

/** A claim never asks for less than this: it has to be worth its round trip. One job is answered in any case. */
const LEAST_BYTES = 65_536;
/** After an answer that took no more than this part of the allowed time, the next claim asks for twice as much. */
const QUICK = 1 / 4;

/** What a claim brought. */
export interface Brought {
  readonly jobs: number;
  readonly bytes: number;
}

/**
 * How much a worker asks for in one claim: half of what it got when the answer came too late to start anything, half the bytes when
 * there was no answer, and twice as much, up to the usual, when one came quickly.
 */
export class ClaimSize {
  #jobs = Number.POSITIVE_INFINITY;
  #bytes = STEP_BYTES;
  #late = 0;

  /** How many jobs, at most. */
  get jobs(): number {
    return this.#jobs;
  }

  /** How many bytes of their data, at most. */
  get bytes(): number {
    return this.#bytes;
  }

  /** An answer came too late. Returns how often that has happened in a row. */
  late({ jobs, bytes }: Brought): number {
    this.#jobs = Math.max(1, Math.floor(Math.min(jobs, this.#jobs) / 2));
    this.#bytes = Math.max(LEAST_BYTES, Math.floor(Math.min(bytes, this.#bytes) / 2));
    this.#late += 1;
    return this.#late;
  }

  /** There was no answer, perhaps because it was too large. */
  failed(): void {
    this.#bytes = Math.max(LEAST_BYTES, Math.floor(this.#bytes / 2));
  }

  /** An answer came in time: after `tookMs` of `allowedMs`. */
  inTime(tookMs: number, allowedMs: number): void {
    this.#late = 0;
    if (tookMs > allowedMs * QUICK) return;
    this.#jobs *= 2;
    this.#bytes = Math.min(STEP_BYTES, 2 * this.#bytes);
  }
}
