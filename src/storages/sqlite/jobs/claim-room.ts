import { isAmong, type LimitRule, labelOf, ONE } from "../../../limits/rule.ts";
import type { Wait } from "../../../limits/wait.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import type { Grant } from "../../../storage/grants.ts";
import { grantOf } from "../limits/grants.ts";
import { SqliteKeys, type SqliteKey } from "../limits/keys.ts";
import { takeLimits } from "../limits/taking.ts";
import type { Step } from "../step.ts";

/** Do all jobs that a claim may take run under the same limits, and count for one under each of them? */
export function isUniform(rules: readonly LimitRule[], { types }: ClaimRequest): boolean {
  return rules.every(
    ({ byGroup, weight, types: of }) =>
      !byGroup && weight === null && (of === null || (types !== null && types.every((type) => isAmong(of, type)))),
  );
}

const NOTHING = { limits: null, grant: undefined };

/** What limits decision to a claim whose jobs are all alike to them: a number. */
export class ClaimRoom {
  readonly #step: Step;
  readonly #keys: SqliteKeys;
  readonly #all: readonly SqliteKey[];

  constructor(step: Step, rules: readonly LimitRule[], { grantTtlMs }: ClaimRequest) {
    this.#step = step;
    this.#keys = new SqliteKeys(step, grantTtlMs);
    this.#all = rules.map((rule) => this.#keys.key(rule, null));
  }

  /** Starts are not kept long enough for one of the windows: a step has to write down that they must be. */
  get unprepared(): boolean {
    return this.#all.some((key) => key.unprepared);
  }

  prepare(): void {
    for (const key of this.#all) key.prepare();
  }

  /** How many may start. */
  get free(): number {
    let free = Number.POSITIVE_INFINITY;
    for (const key of this.#all) free = Math.min(free, key.free ?? free);
    return free;
  }

  /** Counts so many starts, the first with this token. Answers with what is kept of that with each job. */
  take(count: number, first: number): { readonly limits: string | null; readonly grant: Grant | undefined } {
    if (this.#all.length === 0) return NOTHING;
    const charges = this.#all.map((key) => ({ key, charge: ONE }));
    for (let i = 0; i < count; i++) {
      for (const { key } of charges) key.take(ONE);
      this.#keys.start += 1;
    }
    const starts = Array.from({ length: count }, () => charges);
    const { ttlMs } = this.#keys;
    const limits = takeLimits(this.#step, starts, first, ttlMs)[0]!;
    return { limits, grant: ttlMs === undefined ? undefined : grantOf(first, charges) };
  }

  /** When one more may start, and what is in its way until then: of several, the one that is so the longest. */
  get next(): { readonly wait: Wait; readonly blockedBy: string | null } {
    let wait: Wait = 0;
    let blockedBy: string | null = null;
    for (const key of this.#all) {
      const own = key.wait(ONE);
      if (own <= wait) continue;
      wait = own;
      blockedBy = labelOf(key.rule.name, null);
    }
    return { wait, blockedBy };
  }
}
