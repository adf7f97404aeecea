import {
  type ExecutionVerdict,
  type ExecutionWindow,
  InMemoryRateLimiterStorage,
  type IRateLimiterStorage,
  type Limiter,
  RateLimiter,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { SixMethodLimiter } from "./support.ts";

/** A storage elsewhere that takes its time to answer. */
export class SlowStorage extends InMemoryRateLimiterStorage {
  readonly calls: string[] = [];
  readonly #clock: FakeClock;
  readonly #delay: () => number;

  constructor(clock: FakeClock, delay: () => number = () => 0) {
    super({ clock });
    this.#clock = clock;
    this.#delay = delay;
  }

  /** It hides that it is in this process. */
  hidden(): IRateLimiterStorage {
    return new Proxy(this, {
      has: (target, key) => typeof key === "string" && key in target,
      get: (target, key) => {
        const value: unknown = Reflect.get(target, key, target);
        return typeof value === "function" ? (value.bind(target) as unknown) : value;
      },
    });
  }

  override async tryRecordExecution(name: string, window: ExecutionWindow): Promise<ExecutionVerdict> {
    this.calls.push("try");
    const ms = this.#delay();
    if (ms > 0) await new Promise<void>((resolve) => this.#clock.after(ms, resolve));
    return super.tryRecordExecution(name, window);
  }

  override async cancelExecution(name: string, token: string): Promise<void> {
    this.calls.push("cancel");
    await super.cancelExecution(name, token);
  }
}

/** A user's own limiter that answers late. */
export class SlowSixMethodLimiter extends SixMethodLimiter {
  readonly #clock: FakeClock;
  readonly #ask: () => number;
  readonly #record: () => number;

  constructor(max: number, clock: FakeClock, ask: () => number = () => 0, record: () => number = () => 0) {
    super(max);
    this.#clock = clock;
    this.#ask = ask;
    this.#record = record;
  }

  override async canProceed(): Promise<boolean> {
    await this.#pass(this.#ask());
    return super.canProceed();
  }

  override async recordJobStart(): Promise<void> {
    await this.#pass(this.#record());
    await super.recordJobStart();
  }

  async #pass(ms: number): Promise<void> {
    if (ms > 0) await new Promise<void>((resolve) => this.#clock.after(ms, resolve));
  }
}

/** A storage elsewhere, and limiters over one name in it. */
export function setUp({ max = 1, seconds = 60, delay = (): number => 0 } = {}) {
  const clock = new FakeClock();
  const storage = new SlowStorage(clock, delay);
  const elsewhere = storage.hidden();
  const rate = () => new RateLimiter(elsewhere, "api", { maxExecutions: max, windowSizeInSeconds: seconds, clock });
  return { clock, storage, elsewhere, rate };
}

/** The full interface, but not ours: it delegates. */
export function foreign(limiter: Limiter): Limiter {
  return {
    canProceed: () => limiter.canProceed(),
    recordJobStart: () => limiter.recordJobStart(),
    recordJobCompletion: () => limiter.recordJobCompletion(),
    getNextAvailableTime: () => limiter.getNextAvailableTime(),
    setNextAvailableTime: (date) => limiter.setNextAvailableTime(date),
    clear: () => limiter.clear(),
    tryAcquire: (options) => limiter.tryAcquire(options),
    acquire: (options) => limiter.acquire(options),
  };
}
