import { getOrMake } from "../core/get-or-make.ts";
import { type Clock, type Mark, markOf, mostSince } from "../core/clock.ts";
import type { RateState } from "../limits/rate-state.ts";
import type { StartEntry } from "../limits/window.ts";
import { WakeUps } from "../limits/wake-ups.ts";
import type { Wait } from "../limits/wait.ts";
import { type Confirmations, type RateCall, rateConfirmationsOf } from "../storage/confirmations.ts";
import { confirmInMs } from "../storage/grants.ts";
import type {
  AtomicRateLimiterStorage,
  ExecutionWindow,
  IRateLimiterStorage,
} from "../storage/rate-limiter-storage.ts";
import { inTime } from "../core/deadline.ts";
import { OptionsError } from "../core/errors.ts";
import type { Backoff } from "./backoff.ts";
import { Blocked } from "./blocked.ts";
import { holdGate, nextAvailableIn } from "./gate.ts";
import { type CheckedPart, Lock, type RemoteAnswer, type RemotePart } from "./part.ts";
import { RateGate } from "./rate-gate.ts";
import { COUNT_HINT } from "./settings.ts";

/** The checked settings of a `RateLimiter`. */
export interface RateRule {
  readonly name: string;
  readonly clock: Clock;
  readonly count: "weight" | "starts";
  readonly maxExecutions: number;
  readonly windowMs: number;
  readonly grantTtl: number;
  readonly backoff: Backoff;
}

/** The starts that a `RateLimiter` counts, wherever they are kept. Each kind of them is a part as well. */
export interface Starts {
  /** Could one more start now? Clears the back-off, or advances it. */
  canStart(): Promise<boolean>;
  /** Records a start, whether or not it fits. Clears the back-off if it fits, else advances it. */
  record(): Promise<void>;
  /** Milliseconds until one more could start, the back-off included. */
  nextAvailableIn(): Promise<number>;
  holdUntil(until: Date): Promise<void>;
  clear(): Promise<void>;
}

/** Starts kept in this process: decisions are synchronous. */
export class LocalStarts extends RateGate implements Starts {
  readonly #backoff: Backoff;

  constructor(state: RateState, rule: RateRule) {
    super(rule.maxExecutions, rule, state, blockedBy(state, rule));
    this.#backoff = rule.backoff;
  }

  override take(now: number, weight: number): StartEntry {
    this.#backoff.granted();
    return super.take(now, weight);
  }

  override recordStart(): void {
    const now = this.clock.now();
    const fits = this.wait(now, 1) === 0;
    super.recordStart();
    this.#backoff.answered(fits, now);
  }

  override refused(now: number): void {
    this.#backoff.refused(now);
  }

  override reset(): void {
    this.#backoff.granted();
    super.reset();
  }

  async canStart(): Promise<boolean> {
    const now = this.clock.now();
    const fits = this.wait(now, 1) === 0;
    this.#backoff.answered(fits, now);
    return fits;
  }

  async record(): Promise<void> {
    this.recordStart();
  }

  async nextAvailableIn(): Promise<number> {
    const now = this.clock.now();
    return this.#backoff.extend(nextAvailableIn(this, now), now);
  }

  async holdUntil(until: Date): Promise<void> {
    holdGate(this, until.getTime() - this.clock.wall());
  }

  async clear(): Promise<void> {
    this.reset();
    this.wakeUps.notify();
  }
}

/** The common part of starts that are kept in another storage. */
abstract class RemoteStarts<Storage extends IRateLimiterStorage> implements Starts {
  readonly name: string;
  readonly clock: Clock;
  readonly hint = COUNT_HINT;
  readonly state: Name;
  protected readonly storage: Storage;
  protected readonly rule: RateRule;

  constructor(storage: Storage, rule: RateRule) {
    this.name = rule.name;
    this.clock = rule.clock;
    this.storage = storage;
    this.rule = rule;
    this.state = nameIn(storage, rule.name);
  }

  /** Milliseconds until one more fits, by what the storage says. */
  protected abstract waitForOne(): Promise<Wait>;

  get capacity(): number {
    return this.rule.maxExecutions;
  }

  get counts(): "weight" | "starts" {
    return this.rule.count;
  }

  get wakeUps(): WakeUps {
    return this.state.wakeUps;
  }

  async canStart(): Promise<boolean> {
    const fits = (await this.waitForOne()) <= 0;
    this.answered(fits);
    return fits;
  }

  async record(): Promise<void> {
    const fits = (await this.waitForOne()) <= 0;
    await this.storage.recordExecution(this.name);
    this.answered(fits);
  }

  async nextAvailableIn(): Promise<number> {
    return this.rule.backoff.extend(await this.waitForOne(), this.clock.now());
  }

  async holdUntil(until: Date): Promise<void> {
    await this.storage.setNextAvailableTime(this.name, until.toISOString());
  }

  async clear(): Promise<void> {
    await this.storage.clear(this.name);
    this.rule.backoff.granted();
    this.wakeUps.notify();
  }

  /** The answer of the storage, or an error if none comes in time. A later answer goes to `late`. */
  protected answerOf<T>(answer: Promise<T>, late?: (answer: T) => void): Promise<T> {
    return inTime(this.clock, () => answer, { late, who: `the storage of "${this.name}"` });
  }

  protected units(weight: number): number {
    return this.counts === "starts" ? Math.min(1, weight) : weight;
  }

  /** Clears the back-off, or advances it. */
  protected answered(granted: boolean): void {
    this.rule.backoff.answered(granted, this.clock.now());
  }
}

/** A granted start: its token in the storage, and since when it may be called. */
interface GrantedStart {
  readonly token: string;
  readonly asked: Mark;
}

/** Starts kept in a storage that checks and charges in one step. */
export class AtomicStarts extends RemoteStarts<AtomicRateLimiterStorage> implements RemotePart {
  readonly kind = "remote";
  readonly #confirmations: Confirmations<RateCall> | undefined;

  constructor(storage: AtomicRateLimiterStorage, rule: RateRule) {
    super(storage, rule);
    if (confirms(storage)) this.#confirmations = rateConfirmationsOf(storage, rule.clock);
  }

  get grantTtl(): number {
    return this.rule.grantTtl;
  }

  async tryTake(weight: number): Promise<RemoteAnswer> {
    const { maxExecutions, windowMs, grantTtl } = this.rule;
    const window: ExecutionWindow = { maxExecutions, windowMs, weight: this.units(weight) };
    const asked = markOf(this.clock);
    const answering = this.storage.tryRecordExecution(
      this.name,
      this.#confirmations === undefined ? window : { ...window, grantTtl },
    );
    const decision = await this.answerOf(answering, ({ token }) => {
      // The caller does not wait for it any more.
      if (token !== undefined) this.cancel({ token, asked }).catch(() => {});
    });
    this.answered(decision.granted);
    if (decision.granted) return { wait: 0, token: { token: decision.token, asked } };
    // A refusal must not lead to a retry at once or to none, whatever the storage answers.
    return { wait: decision.retryInMs > 0 ? decision.retryInMs : 1 };
  }

  isLate({ asked }: GrantedStart): boolean {
    return mostSince(this.clock, asked) > this.rule.grantTtl;
  }

  called({ token, asked }: GrantedStart): void {
    if (token === undefined) return;
    const call = { name: this.name, token, calledInMs: mostSince(this.clock, asked) };
    this.#confirmations?.add(call, confirmInMs(this.rule.windowMs));
  }

  release(): void {}

  async cancel({ token }: GrantedStart): Promise<void> {
    await this.answerOf(this.storage.cancelExecution(this.name, token));
  }

  async settle({ token }: GrantedStart, used: number): Promise<void> {
    if (this.counts === "weight") await this.storage.settleExecution(this.name, token, used);
  }

  protected async waitForOne(): Promise<Wait> {
    const { maxExecutions, windowMs } = this.rule;
    const window = { maxExecutions: maxExecutions - 1, windowMs, weight: 0 };
    return (await this.answerOf(this.storage.tryRecordExecution(this.name, window))).retryInMs;
  }
}

/** Does the storage accept confirmations of calls? */
const confirms = (storage: AtomicRateLimiterStorage): storage is Required<AtomicRateLimiterStorage> =>
  storage.confirmExecution !== undefined;

/** Starts kept in a storage with the seven methods only: exact for one caller at a time, which a lock ensures within this process. */
export class CheckedStarts extends RemoteStarts<IRateLimiterStorage> implements CheckedPart {
  readonly kind = "checked";

  get lock(): Lock {
    return this.state.lock;
  }

  async ask(weight: number): Promise<Wait> {
    if (this.units(weight) !== 1) {
      throw new OptionsError(
        "RateLimiter",
        "weight",
        weight,
        "1: the storage has no tryRecordExecution() and can only count starts",
      );
    }
    const wait = await this.answerOf(this.waitForOne());
    this.answered(wait === 0);
    return wait;
  }

  async recordStart(): Promise<void> {
    await this.answerOf(this.storage.recordExecution(this.name));
  }

  release(): void {}
  cancel(): void {}
  settle(): void {}

  /** Such a storage may overwrite a later instant with an earlier one, so an earlier one is never written. */
  override async holdUntil(until: Date): Promise<void> {
    const unlock = await this.lock.take();
    try {
      const before = await this.storage.getNextAvailableTime(this.name);
      if (before === undefined || Date.parse(before) < until.getTime()) await super.holdUntil(until);
    } finally {
      unlock();
    }
  }

  protected async waitForOne(): Promise<Wait> {
    const { maxExecutions } = this.rule;
    // Its stamps are whole milliseconds: one that reads W ago may be up to one less.
    const windowMs = this.rule.windowMs + 1;
    const now = this.clock.wall();
    const pausedUntil = await this.storage.getNextAvailableTime(this.name);
    const pause = pausedUntil === undefined ? 0 : Math.max(0, Date.parse(pausedUntil) - now);
    const inWindow = await this.storage.getExecutionCount(this.name, new Date(now - windowMs).toISOString());
    if (inWindow < maxExecutions) return pause;
    // Counted from the newest, the start at `maxExecutions` is the one that must leave; the storage counts from the oldest.
    const kept = await this.storage.getExecutionCount(this.name, new Date(0).toISOString());
    const oldest = await this.storage.getOldestExecutionAtOffset(this.name, kept - maxExecutions);
    const leaves = oldest === undefined ? 0 : Date.parse(oldest) + windowMs - now;
    return Math.max(pause, leaves, 1);
  }
}

/** Limiters with the same name and the same rule are one limit: their waiters are served in one order. */
const blockedByRule = new WeakMap<RateState, Map<string, Blocked>>();

function blockedBy(state: RateState, { maxExecutions, windowMs, count }: RateRule): Blocked {
  const byRule = getOrMake(blockedByRule, state, () => new Map());
  return getOrMake(byRule, `${maxExecutions} ${windowMs} ${count}`, () => new Blocked(state.wakeUps));
}

/** One name in one storage: its limiters share one lock and one source of wake-ups. */
interface Name {
  readonly lock: Lock;
  readonly wakeUps: WakeUps;
}

const names = new WeakMap<IRateLimiterStorage, Map<string, Name>>();

function nameIn(storage: IRateLimiterStorage, name: string): Name {
  const byName = getOrMake(names, storage, () => new Map());
  return getOrMake(byName, name, () => ({ lock: new Lock(), wakeUps: new WakeUps() }));
}
