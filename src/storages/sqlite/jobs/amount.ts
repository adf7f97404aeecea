import { STEP_BYTES } from "../../../storage/step-bytes.ts";
import type { JobRow } from "./record.ts";

/** So many are read before anything is known of their size. */
const FEW = 16;

/**
 * How many jobs of a claim to read at once: few at first, then, by the size of those, about as many as a claim may answer with. What
 * is read and not started costs as much as what is.
 */
export class Amount {
  /** How long the data is of those that were read. */
  bytes = 0;
  #jobs = 0;

  /** How many to read next, at most `count`. */
  of(count: number): number {
    if (this.#jobs === 0) return Math.min(count, FEW);
    return Math.min(count, Math.max(FEW, Math.floor((STEP_BYTES * this.#jobs) / this.bytes)));
  }

  /** These were read. */
  read(rows: readonly JobRow[]): void {
    this.#jobs += rows.length;
    for (const { data } of rows) this.bytes += data.length;
  }
}
