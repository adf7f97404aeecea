import { OptionsError } from "../../core/errors.ts";
import {
  countOrZero,
  name,
  optional,
  positive,
  readArgument,
  readOptions,
  required,
  weightOrZero,
} from "../../core/options.ts";
import { NEVER } from "../../limits/wait.ts";
import type {
  ConfirmingRateLimiterStorage,
  ExecutionCall,
  ExecutionVerdict,
  ExecutionWindow,
} from "../../storage/rate-limiter-storage.ts";
import { findLimit, holdLimit, openLimit, resetLimit } from "./limits/limit-row.ts";
import { windowFreed } from "./limits/release.ts";
import { pruneStarts } from "./limits/prune.ts";
import type { Step } from "./step.ts";
import type { Store } from "./store.ts";
import { cancelNamed, confirmNamed, settleNamed, tokenOf } from "./limits/tokens.ts";
import { keepTotal, usedOf } from "./limits/totals.ts";
import { grantNamed, recordNamed, recordStarts, waitFor } from "./limits/windows.ts";

/** Starts that no window has counted yet are kept for an hour; no question reaches back over two months. */
const KEEP_MS = 3_600_000;
const LONGEST_MS = 2 ** 32;

/** Every so many starts under a token, old ones are deleted: there may be no worker that sweeps. */
const PRUNE_EVERY = 64;

const WINDOW = {
  maxExecutions: required(countOrZero),
  windowMs: required(positive),
  weight: optional(weightOrZero, 1),
  grantTtl: optional(positive, undefined),
};

const COUNT = "SELECT total(n) AS count FROM sluice_starts WHERE limit_id = ? AND at > ?";
const KEPT = "SELECT at, n FROM sluice_starts WHERE limit_id = ? AND n > 0 ORDER BY at, seq LIMIT +?";

/** The limits of a database: all methods, over the log that the claims of its jobs count in as well. */
export class SqliteRates implements ConfirmingRateLimiterStorage {
  readonly #store: Store;
  readonly #owner: string;

  constructor(store: Store, owner: string) {
    this.#store = store;
    this.#owner = owner;
  }

  setupDatabase(): Promise<void> {
    return this.#store.setup();
  }

  async recordExecution(queueName: string): Promise<void> {
    this.#name(queueName);
    await this.#store.write((step) => {
      const row = openLimit(step, queueName, KEEP_MS);
      recordStarts(step, row, 1);
    });
  }

  async getExecutionCount(queueName: string, windowStartTime: string): Promise<number> {
    this.#name(queueName);
    const given = this.#instant("windowStartTime", windowStartTime);
    const ask = (step: Step) => {
      const start = given + step.skew;
      const row = findLimit(step, queueName);
      if (row === undefined) return 0;
      // What is asked for is kept from now on.
      const age = Math.min(LONGEST_MS, step.now - start);
      if (row.longest < age) return Math.min(LONGEST_MS, 2 ** Math.ceil(Math.log2(Math.max(KEEP_MS, age)))) * -1;
      return (step.sql(COUNT).get(row.id, start) as { readonly count: number }).count;
    };
    const answer = await this.#store.read(ask);
    if (answer >= 0) return answer;
    return this.#store.write((step) => {
      openLimit(step, queueName, -answer);
      return Math.max(0, ask(step));
    });
  }

  async getOldestExecutionAtOffset(queueName: string, offset: number): Promise<string | undefined> {
    this.#name(queueName);
    readArgument(this.#owner, "offset", countOrZero, offset);
    return this.#store.read((step) => {
      const row = findLimit(step, queueName);
      if (row === undefined) return undefined;
      let left = offset;
      for (const { at, n } of step.sql(KEPT).all(row.id, offset + 1) as { at: number; n: number }[]) {
        left -= n;
        if (left < 0) return new Date(at - step.skew).toISOString();
      }
      return undefined;
    });
  }

  async getNextAvailableTime(queueName: string): Promise<string | undefined> {
    this.#name(queueName);
    return this.#store.read((step) => {
      const until = findLimit(step, queueName)?.held_until ?? null;
      return until === null ? undefined : new Date(Math.ceil(until - step.skew)).toISOString();
    });
  }

  async setNextAvailableTime(queueName: string, nextAvailableAt: string): Promise<void> {
    this.#name(queueName);
    const until = this.#instant("nextAvailableAt", nextAvailableAt);
    await this.#store.write((step) => holdLimit(step, queueName, "", until + step.skew));
  }

  async clear(queueName: string): Promise<void> {
    this.#name(queueName);
    await this.#store.write((step) => {
      const row = findLimit(step, queueName);
      if (row === undefined) return;
      resetLimit(step, row);
      windowFreed(step, row);
    });
  }

  async tryRecordExecution(queueName: string, window: ExecutionWindow): Promise<ExecutionVerdict> {
    this.#name(queueName);
    const { maxExecutions: max, windowMs, weight, grantTtl } = readOptions(this.#owner, WINDOW, window);
    if (weight > max) {
      throw new OptionsError(this.#owner, "weight", weight, `at most maxExecutions (${max})`);
    }
    const askedAt = this.#store.clock.now();
    // First without a lock: a request that is refused, or only asks, takes none.
    const refused = await this.#store.read((step): ExecutionVerdict | undefined => {
      const row = findLimit(step, queueName);
      if (row !== undefined && row.longest < windowMs) return undefined;
      const retryInMs = waitFor(step, row, { max, windowMs }, weight);
      return retryInMs > 0 || weight === 0 ? { granted: retryInMs === 0, retryInMs } : undefined;
    });
    return refused ?? this.#store.write((step) => take(step, queueName, { max, windowMs }, weight, grantTtl), askedAt);
  }

  async confirmExecution(queueName: string, calls: readonly ExecutionCall[]): Promise<void> {
    this.#name(queueName);
    await this.#store.write((step) => {
      for (const { token, calledInMs } of calls) confirmNamed(step, queueName, token, calledInMs);
    });
  }

  async cancelExecution(queueName: string, token: string): Promise<void> {
    this.#name(queueName);
    await this.#store.write((step) => cancelNamed(step, queueName, token));
  }

  async settleExecution(queueName: string, token: string, weight: number): Promise<void> {
    this.#name(queueName);
    readArgument(this.#owner, "weight", weightOrZero, weight);
    await this.#store.write((step) => settleNamed(step, queueName, token, weight));
  }

  #name(queueName: string): void {
    readArgument(this.#owner, "queueName", name, queueName);
  }

  #instant(option: string, value: string): number {
    const instant = typeof value === "string" ? Date.parse(value) : Number.NaN;
    if (Number.isNaN(instant)) throw new OptionsError(this.#owner, option, value, "an ISO 8601 instant");
    return instant;
  }
}

/** Checks and charges under the lock. */
function take(
  step: Step,
  queueName: string,
  window: { readonly max: number; readonly windowMs: number },
  weight: number,
  grantTtl: number | undefined,
): ExecutionVerdict {
  const row = openLimit(step, queueName, window.windowMs);
  const used = usedOf(step, row, window.windowMs);
  const retryInMs = waitFor(step, row, window, weight, used);
  if (retryInMs > 0 || retryInMs === NEVER || weight === 0) return { granted: retryInMs === 0, retryInMs };
  const number = step.numbers(1);
  if (row.window_ms !== window.windowMs) keepTotal(step, row, window.windowMs, used);
  if (grantTtl === undefined) recordNamed(step, row, weight, number);
  else grantNamed(step, row, weight, number, grantTtl);
  if (number % PRUNE_EVERY === 0) pruneStarts(step, row.id);
  return { granted: true, retryInMs: 0, token: tokenOf(row.id, number, weight) };
}
