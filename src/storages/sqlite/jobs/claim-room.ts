import { type LimitRule, labelOf } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import type { Grant } from "../../../storage/grants.ts";
import { grantOf } from "../limits/grants.ts";
import { Meters, type SqliteMeter } from "../limits/meter.ts";
import { takeLimits } from "../limits/taking.ts";
import type { Step } from "../step.ts";

const ONE = { weight: 1, slots: 1 };

/** Do all jobs that a claim may take run under the same limits, and count for one under each of them? */
export function isUniform(rules: readonly LimitRule[], { types }: ClaimRequest): boolean {
  return rules.every(
    ({ byGroup, weight, types: of }) =>
      !byGroup && weight === null && (of === null || (types !== null && types.every((type) => of.includes(type)))),
  );
}

/** What limits leave to a claim whose jobs are all alike to them: a number. */
export class ClaimRoom {
  readonly #step: Step;
  readonly #meters: Meters;
  readonly #all: readonly SqliteMeter[];

  constructor(step: Step, rules: readonly LimitRule[], { grantTtlMs }: ClaimRequest) {
    this.#step = step;
    this.#meters = new Meters(step, grantTtlMs);
    this.#all = rules.map((rule) => this.#meters.meter(rule, null));
  }

  /** Starts are not kept long enough for one of the windows: somebody has to write down that they must be. */
  get unprepared(): boolean {
    return this.#all.some((meter) => meter.unprepared);
  }

  prepare(): void {
    for (const meter of this.#all) meter.prepare();
  }

  /** How many may start. */
  get free(): number {
    let free = Number.POSITIVE_INFINITY;
    for (const meter of this.#all) free = Math.min(free, meter.free ?? free);
    return free;
  }

  /** Counts so many starts, the first with this token. Answers with what is kept of that with each job. */
  take(count: number, first: number): { readonly limits: string | null; readonly grant: Grant | undefined } {
    const uses = this.#all.map((meter) => ({ meter, charge: ONE }));
    for (let i = 0; i < count; i++) {
      for (const { meter } of uses) meter.take(ONE);
      this.#meters.start += 1;
    }
    const starts = Array.from({ length: count }, () => uses);
    const { ttlMs } = this.#meters;
    const limits = takeLimits(this.#step, starts, first, ttlMs)[0]!;
    return { limits, grant: ttlMs === undefined ? undefined : grantOf(first, uses) };
  }

  /** When one more may start, and what is in its way until then: of several, the one that is so the longest. */
  get next(): { readonly wait: Wait; readonly blockedBy: string | null } {
    let wait: Wait = 0;
    let blockedBy: string | null = null;
    for (const meter of this.#all) {
      const own = meter.wait(ONE);
      if (own <= wait) continue;
      wait = own;
      blockedBy = labelOf(meter.rule.name, null);
    }
    return { wait, blockedBy };
  }
}
