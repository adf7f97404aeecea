import type { Clock } from "../../core/clock.ts";
import { OptionsError } from "../../core/errors.ts";
import {
  countOrZero,
  durationOrZero,
  name,
  optional,
  positive,
  readArgument,
  readOptions,
  required,
  weightOrZero,
} from "../../core/options.ts";
import type {
  ConfirmingRateLimiterStorage,
  ExecutionCall,
  ExecutionVerdict,
  ExecutionWindow,
} from "../../storage/rate-limiter-storage.ts";
import type { Database } from "./database.ts";

const WINDOW = {
  maxExecutions: required(countOrZero),
  windowMs: required(positive),
  weight: optional(weightOrZero, 1),
  grantTtl: optional(positive, undefined),
};

/** The last settled weight counts, so a repeat does no harm; but a late repeat must not be the last. */
const FENCED = { as: "fenced" } as const;

/** What the database needs before it can be asked. */
interface Prepared extends Database {
  readonly clock: Clock;
  setup(): Promise<void>;
  /** Refuses, if it is closed. */
  check(): void;
}

/**
 * The limits of a database: all eleven methods, over the log that the claims of its jobs count in as well.
 *
 * Starts are stamped by the clock of the storage. An instant set from outside is by the clock of the caller: it comes in and goes out
 * as the time until then.
 */
export class PostgresRates implements ConfirmingRateLimiterStorage {
  readonly #database: Prepared;
  readonly #owner: string;

  constructor(database: Prepared, owner: string) {
    this.#database = database;
    this.#owner = owner;
  }

  setupDatabase(): Promise<void> {
    return this.#database.setup();
  }

  async recordExecution(queueName: string): Promise<void> {
    this.#name(queueName);
    await this.#database.once("rate_record", [queueName]);
  }

  async getExecutionCount(queueName: string, windowStartTime: string): Promise<number> {
    this.#name(queueName);
    return this.#database.call("rate_count", queueName, this.#instant("windowStartTime", windowStartTime));
  }

  async getOldestExecutionAtOffset(queueName: string, offset: number): Promise<string | undefined> {
    this.#name(queueName);
    readArgument(this.#owner, "offset", countOrZero, offset);
    const at = await this.#database.call<number | null>("rate_oldest", queueName, offset);
    return at === null ? undefined : new Date(at).toISOString();
  }

  async getNextAvailableTime(queueName: string): Promise<string | undefined> {
    this.#name(queueName);
    const ms = await this.#database.call<number | null>("rate_paused", queueName);
    return ms === null ? undefined : new Date(Math.ceil(this.#database.clock.wall() + ms)).toISOString();
  }

  async setNextAvailableTime(queueName: string, nextAvailableAt: string): Promise<void> {
    this.#name(queueName);
    const until = this.#instant("nextAvailableAt", nextAvailableAt);
    await this.#database.once("hold_limit", [queueName, null, until - this.#database.clock.wall(), true]);
  }

  async clear(queueName: string): Promise<void> {
    this.#name(queueName);
    await this.#database.once("rate_clear", [queueName]);
  }

  async tryRecordExecution(queueName: string, window: ExecutionWindow): Promise<ExecutionVerdict> {
    this.#name(queueName);
    const { maxExecutions: max, windowMs, weight, grantTtl = null } = readOptions(this.#owner, WINDOW, window);
    if (weight > max) throw new OptionsError(this.#owner, "weight", weight, `at most maxExecutions (${max})`);
    const args = [queueName, max, windowMs, weight, grantTtl];
    const { granted, retryInMs, token } =
      weight === 0
        ? await this.#database.call<Tried>("rate_try", ...args)
        : await this.#database.once<Tried>("rate_try", args, {
            // It was recorded, and its caller was not answered.
            undo: async (steps, tried) => {
              if (tried?.token !== undefined)
                await steps.call("give_permit", queueName, ...tried.token, null, null, "cancelled", null);
            },
          });
    return token === undefined ? { granted, retryInMs } : { granted, retryInMs, token: token.join(".") };
  }

  async cancelExecution(queueName: string, token: string): Promise<void> {
    this.#name(queueName);
    await this.#give(queueName, token, "cancelled", null);
  }

  async settleExecution(queueName: string, token: string, weight: number): Promise<void> {
    this.#name(queueName);
    readArgument(this.#owner, "weight", weightOrZero, weight);
    await this.#give(queueName, token, "used", weight);
  }

  /** A start is given back or corrected like a permit, which has instants besides. */
  async #give(queueName: string, token: string, how: "cancelled" | "used", used: number | null): Promise<void> {
    const start = read(token);
    if (start !== undefined)
      await this.#database.once("give_permit", [queueName, ...start, null, null, how, used], FENCED);
  }

  async confirmExecution(queueName: string, calls: readonly ExecutionCall[]): Promise<void> {
    this.#name(queueName);
    const said = { name: queueName, grants: [] as number[], called: [] as number[] };
    for (const { token, calledInMs } of calls) {
      const start = read(token);
      if (start === undefined) continue;
      said.grants.push(start[1]);
      said.called.push(readArgument(this.#owner, "calledInMs", durationOrZero, calledInMs));
    }
    if (said.grants.length > 0) await this.#database.call("confirm", JSON.stringify(said));
  }

  #name(queueName: string): void {
    readArgument(this.#owner, "queueName", name, queueName);
    this.#database.check();
  }

  #instant(option: string, value: string): number {
    const instant = typeof value === "string" ? Date.parse(value) : Number.NaN;
    if (Number.isNaN(instant)) throw new OptionsError(this.#owner, option, value, "an ISO 8601 instant");
    return instant;
  }
}

/** What a token says: the limit, the number of the start, and what was reserved. */
type NamedStart = readonly [limit: number, number: number, reserved: number];

/** What `rate_try` answers. */
interface Tried {
  readonly granted: boolean;
  readonly retryInMs: number;
  readonly token?: NamedStart;
}

function read(token: string): NamedStart | undefined {
  if (typeof token !== "string") return undefined;
  const [limit, number, reserved] = token.split(".").map(Number);
  if (!Number.isSafeInteger(limit) || !Number.isSafeInteger(number) || !(reserved! >= 0)) return undefined;
  return [limit!, number!, reserved!];
}
