import { both } from "../../../limits/compose.ts";
import { type Wait } from "../../../limits/wait.ts";
import type { ClaimLimit } from "../../../storage/job-storage.ts";
import type { Step } from "../step.ts";
import { findLimit, type LimitRow, openLimit, recordStarts, usedOf, waitFor } from "../windows.ts";

/** From this number on starts share rows: by a thousandth of the window at the most, which nobody will notice. */
const MANY = 1_000;

/** What the limits of one claim leave, at one instant. */
export class ClaimRoom {
  readonly #step: Step;
  readonly #limits: readonly ClaimLimit[];
  readonly #rows = new Map<string, LimitRow | undefined>();
  /** Starts are not kept long enough for one of the windows: somebody has to write down that they must be. */
  readonly unprepared: boolean;

  constructor(step: Step, limits: readonly ClaimLimit[]) {
    this.#step = step;
    this.#limits = limits;
    let unprepared = false;
    for (const { key, windowMs } of limits) {
      if (!this.#rows.has(key)) this.#rows.set(key, findLimit(step, key));
      const row = this.#rows.get(key);
      if (row === undefined) continue;
      if (row.longest < windowMs) unprepared = true;
      // The start that is about to be decided comes after all that are known, whatever this process's clock says.
      if (row.newest !== null && row.newest > step.now) step.now = row.newest;
    }
    this.unprepared = unprepared;
  }

  /** Writes down how long starts have to be kept. */
  prepare(): void {
    for (const { key, windowMs } of this.#limits) {
      const row = this.#rows.get(key);
      if (row === undefined || row.longest < windowMs) this.#rows.set(key, openLimit(this.#step, key, windowMs));
    }
  }

  /** How many may start. */
  get free(): number {
    let free = Number.POSITIVE_INFINITY;
    for (const limit of this.#limits) {
      const row = this.#rows.get(limit.key);
      const wait = waitFor(this.#step, row, limit, 1);
      if (wait !== 0) return 0;
      free = Math.min(free, limit.max - (row === undefined ? 0 : usedOf(this.#step, row, limit.windowMs)));
    }
    return free;
  }

  /** The ids of what starts are counted under, each between commas; null: nothing. */
  get counted(): string | null {
    return this.#rows.size === 0 ? null : `,${Array.from(this.#rows.values(), (row) => row!.id).join()},`;
  }

  /** Counts so many starts: once for each name, however many windows look at it. */
  take(count: number): void {
    for (const [key, row] of this.#rows) {
      let resolution = Number.POSITIVE_INFINITY;
      for (const limit of this.#limits) {
        if (limit.key === key) resolution = Math.min(resolution, limit.max > MANY ? limit.windowMs / 1_000 : 0);
      }
      recordStarts(this.#step, row!, count, resolution);
    }
  }

  /** When one more may start, and what is in its way until then: of several, the one that is so the longest. */
  get next(): { readonly wait: Wait; readonly blockedBy: string | null } {
    let wait: Wait = 0;
    let blockedBy: string | null = null;
    for (const limit of this.#limits) {
      const own = waitFor(this.#step, this.#rows.get(limit.key), limit, 1);
      if (own === 0) continue;
      const together = both(wait, own);
      if (together !== wait || blockedBy === null) blockedBy = limit.key;
      wait = together;
    }
    return { wait, blockedBy };
  }
}
