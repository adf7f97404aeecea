import { type Clock, systemClock } from "../../core/clock.ts";
import { OptionsError } from "../../core/errors.ts";
import {
  clock,
  countOrZero,
  name,
  optional,
  positive,
  readArgument,
  readOptions,
  required,
  weightOrZero,
} from "../../core/options.ts";
import { clearRateState, createRateState, type RateState } from "../../limits/rate-state.ts";
import { extendHold, holdWait } from "../../limits/hold.ts";
import { NEVER } from "../../limits/wait.ts";
import {
  callStart,
  cancelStart,
  entryAt,
  grantStart,
  isKept,
  recordAlone,
  settleStart,
  type StartEntry,
  type StartLog,
  viewOf,
  windowWait,
} from "../../limits/window.ts";
import {
  type ConfirmingRateLimiterStorage,
  type ExecutionCall,
  type ExecutionVerdict,
  type ExecutionWindow,
  LOCAL,
  type LocalRateLimiterStorage,
} from "../../storage/rate-limiter-storage.ts";

export interface InMemoryRateLimiterStorageOptions {
  /** Where the time comes from. Default: the system's monotonic clock. */
  readonly clock?: Clock | undefined;
}

const OWNER = "InMemoryRateLimiterStorage";

/** Starts are kept for an hour until a window is asked for, and never longer than about 50 days. */
const KEEP_MS = 3_600_000;
const LONGEST_MS = 2 ** 32;

const WINDOW = {
  maxExecutions: required(countOrZero),
  windowMs: required(positive),
  weight: optional(weightOrZero, 1),
  grantTtl: optional(positive, undefined),
};

/** Keeps starts in this process. Limiters over the same instance share what they count, by name. */
export class InMemoryRateLimiterStorage implements LocalRateLimiterStorage, ConfirmingRateLimiterStorage {
  readonly #clock: Clock;
  readonly #states = new Map<string, RateState>();
  readonly #said = new WeakMap<StartLog, Map<string, StartEntry | undefined>>();
  #granted = 0;

  constructor(options: InMemoryRateLimiterStorageOptions = {}) {
    this.#clock = readOptions(OWNER, { clock: optional(clock, systemClock) }, options).clock;
  }

  async setupDatabase(): Promise<void> {}

  async recordExecution(queueName: string): Promise<void> {
    const { log } = this.#state(queueName);
    if (log.views.length === 0) viewOf(log, KEEP_MS);
    recordAlone(log, this.#clock.now(), 1);
  }

  async getExecutionCount(queueName: string, windowStartTime: string): Promise<number> {
    const { log } = this.#state(queueName);
    const now = this.#clock.now();
    const age = this.#clock.wall() - readInstant("windowStartTime", windowStartTime);
    // Starts are kept as long as they are asked for, rounded up: each length costs a view.
    if (log.views.every(({ windowMs }) => windowMs < age)) {
      viewOf(log, Math.min(LONGEST_MS, 2 ** Math.ceil(Math.log2(Math.max(KEEP_MS, age)))));
    }
    let sum = log.grantedWeight;
    for (let seq = log.tail - 1; seq >= log.head && now - log.at[seq & log.mask]! < age; seq--) {
      sum += log.weight[seq & log.mask]!;
    }
    return sum;
  }

  async getOldestExecutionAtOffset(queueName: string, offset: number): Promise<string | undefined> {
    let left = readArgument(OWNER, "offset", countOrZero, offset);
    const { log } = this.#state(queueName);
    for (let seq = log.head; seq < log.tail; seq++) {
      left -= log.weight[seq & log.mask]!;
      if (left < 0) return this.#toInstant(log.at[seq & log.mask]!);
    }
    return undefined;
  }

  async getNextAvailableTime(queueName: string): Promise<string | undefined> {
    const { hold } = this.#state(queueName);
    return hold.until === Number.NEGATIVE_INFINITY ? undefined : this.#toInstant(hold.until);
  }

  async setNextAvailableTime(queueName: string, nextAvailableAt: string): Promise<void> {
    const wait = readInstant("nextAvailableAt", nextAvailableAt) - this.#clock.wall();
    extendHold(this.#state(queueName).hold, this.#clock.now() + wait);
  }

  async clear(queueName: string): Promise<void> {
    const state = this.#state(queueName);
    clearRateState(state);
    state.wakeUps.notify();
  }

  async tryRecordExecution(queueName: string, window: ExecutionWindow): Promise<ExecutionVerdict> {
    const { maxExecutions, windowMs, weight, grantTtl } = readOptions(OWNER, WINDOW, window);
    const state = this.#state(queueName);
    const { log } = state;
    const now = this.#clock.now();
    const wait = windowWait(log, viewOf(log, windowMs), maxExecutions, now, weight);
    if (wait === NEVER) throw new OptionsError(OWNER, "weight", weight, `at most maxExecutions (${maxExecutions})`);
    const retryInMs = Math.max(wait, holdWait(state.hold, now));
    if (retryInMs > 0 || weight === 0) return { granted: retryInMs === 0, retryInMs };
    if (grantTtl === undefined) {
      const { seq } = recordAlone(log, now, weight);
      return { granted: true, retryInMs: 0, token: `${state.generation}.${seq}.${weight}.${queueName}` };
    }
    // It has no entry in the log yet: its token has a number of its own.
    const token = `${state.generation}.g${(this.#granted += 1)}`;
    this.#named(state).set(token, grantStart(log, now, weight, now + grantTtl));
    return { granted: true, retryInMs: 0, token };
  }

  async confirmExecution(queueName: string, calls: readonly ExecutionCall[]): Promise<void> {
    const named = this.#named(this.#state(queueName));
    for (const { token, calledInMs } of calls) {
      const entry = named.get(token);
      if (entry === undefined || entry.until === entry.since) continue;
      callStart(entry, Math.min(entry.since + calledInMs, this.#clock.now()));
    }
  }

  async cancelExecution(queueName: string, token: string): Promise<void> {
    const state = this.#state(queueName);
    const entry = this.#entry(state, queueName, token);
    if (entry === undefined) return;
    cancelStart(entry);
    this.#named(state).set(token, undefined);
    state.wakeUps.notify();
  }

  async settleExecution(queueName: string, token: string, weight: number): Promise<void> {
    readArgument(OWNER, "weight", weightOrZero, weight);
    const state = this.#state(queueName);
    const entry = this.#entry(state, queueName, token);
    if (entry === undefined) return;
    settleStart(entry, this.#clock.now(), weight);
    this.#named(state).set(token, entry);
    state.wakeUps.notify();
  }

  get [LOCAL]() {
    return { clock: this.#clock, state: (queueName: string) => this.#state(queueName) };
  }

  #state(queueName: string): RateState {
    let state = this.#states.get(readArgument(OWNER, "queueName", name, queueName));
    if (state === undefined) this.#states.set(queueName, (state = createRateState()));
    return state;
  }

  /** Starts that were granted, cancelled or settled since their token was made; undefined: cancelled. */
  #named(state: RateState): Map<string, StartEntry | undefined> {
    let named = this.#said.get(state.log);
    if (named === undefined) this.#said.set(state.log, (named = new Map()));
    // In the order of insertion: the oldest are in front.
    for (const [token, entry] of named) {
      if (entry === undefined ? Number(token.split(".")[1]) >= state.log.head : isKept(entry)) break;
      named.delete(token);
    }
    return named;
  }

  #entry(state: RateState, queueName: string, token: string): StartEntry | undefined {
    const named = this.#named(state);
    return named.has(token) ? named.get(token) : entryOf(state, queueName, token);
  }

  #toInstant(at: number): string {
    return new Date(this.#clock.wall() + at - this.#clock.now()).toISOString();
  }
}

function readInstant(option: string, value: string): number {
  const instant = typeof value === "string" ? Date.parse(value) : Number.NaN;
  if (Number.isNaN(instant)) throw new OptionsError(OWNER, option, value, "an ISO 8601 instant");
  return instant;
}

/** The start of a token. The token has its weight, because the log has none of expired starts. */
function entryOf({ log, generation }: RateState, queueName: string, token: string): StartEntry | undefined {
  if (typeof token !== "string") return undefined;
  const parts = token.split(".");
  if (parts.splice(3).join(".") !== queueName) return undefined;
  const [of, seq = Number.NaN, reserved = Number.NaN] = parts.map(Number);
  if (of !== generation || !(seq < log.tail) || Number.isNaN(reserved)) return undefined;
  return entryAt(log, seq, seq >= log.head ? log.weight[seq & log.mask]! : reserved);
}
