import type { JobRecord } from "../core/job.ts";
import type { ClaimRequest } from "./job-storage.ts";

/**
 * The most bytes of data or results in one step: the answer to a claim, a page, the outcomes that a worker settles. Over 100 Mbit/s they
 * take a third of a second, so that they arrive long before a start is too old or a deadline has passed; and a claim of this size costs
 * far more than the round trip of the next one.
 */
export const STEP_BYTES = 4 * 2 ** 20;

/** What a claim may still return: so many jobs, and so many bytes of their data, but one job in any case. */
export class Allowance {
  #jobs: number;
  #bytes: number;
  #first = true;

  constructor({ max, maxBytes = STEP_BYTES }: Pick<ClaimRequest, "max" | "maxBytes">) {
    this.#jobs = max;
    this.#bytes = maxBytes;
  }

  /** May a job with this data start? If so it is counted as started. */
  take(data: string): boolean {
    if (this.#jobs <= 0 || !(this.#first || data.length <= this.#bytes)) return false;
    this.#jobs -= 1;
    this.#bytes -= data.length;
    this.#first = false;
    return true;
  }
}

/** Whether one more job fits into a page, which has at most so many bytes, but one job in any case. */
export class PageRoom {
  #bytes = STEP_BYTES;
  #first = true;

  take({ data, result }: Pick<JobRecord, "data" | "result">): boolean {
    this.#bytes -= data.length + (result?.length ?? 0);
    const fits = this.#first || this.#bytes >= 0;
    this.#first = false;
    return fits;
  }
}
