import { QueueOverflowError } from "../core/errors.ts";
import {
  count,
  countOrInfinity,
  countOrZero,
  fn as anyFunction,
  optional,
  positive,
  readArgument,
  readOptions,
  signal,
} from "../core/options.ts";
import { systemClock } from "../core/clock.ts";
import { createLedger } from "../limits/ledger.ts";
import { ConcurrencyLimiter } from "./concurrency-limiter.ts";
import { GateLimiter } from "./line-limiter.ts";
import type { ILimiter } from "./limiter.ts";
import type { Line } from "./line.ts";
import { jointLine, lineOf, readLimiter } from "./parts.ts";
import { WindowGate } from "./window-gate.ts";
import { Ticket, type Weights } from "./ticket.ts";
import { Waiter } from "./waiter.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- any function at all may be wrapped
export type AnyFunction = (this: any, ...args: any[]) => unknown;

export interface LimitOptions<F extends AnyFunction = AnyFunction> {
  /** How many calls may wait; one more is rejected at once with a `QueueOverflowError`. Default: no bound. */
  readonly maxQueue?: number | undefined;
  /** Rejects all calls that wait, and all that come later, with its reason. What runs already goes on. */
  readonly signal?: AbortSignal | undefined;
  /** How much a call counts for, from its arguments: an integer >= 1. Default 1. */
  readonly weight?: ((...args: Parameters<F>) => number) | undefined;
  /**
   * How much a call really used, from its result and arguments: an integer >= 0. Where `weight` was an estimate, the
   * difference counts at once. Default, and after a failure: what `weight` said.
   */
  readonly settle?: ((result: Awaited<ReturnType<F>>, ...args: Parameters<F>) => number) | undefined;
}

/** A function that waits for its turn. Arguments, `this`, results and errors pass through. */
export interface Limited<F extends AnyFunction> {
  (this: ThisParameterType<F>, ...args: Parameters<F>): Promise<Awaited<ReturnType<F>>>;
  /** How many calls have started and not ended. */
  readonly running: number;
  /** How many calls wait for their turn. */
  readonly waiting: number;
  /** Resolves when nothing runs and nothing waits; at once if that is so now. */
  onIdle(): Promise<void>;
}

const OPTIONS = {
  maxQueue: optional(countOrInfinity, Number.POSITIVE_INFINITY),
  signal: optional(signal, undefined),
  weight: optional(anyFunction, undefined),
  settle: optional(anyFunction, undefined),
};

/** What a wrapped function is made of, so that a wrapper around a wrapper can ask for both limits at once. */
interface Wrapping {
  readonly fn: AnyFunction;
  /** Outermost first. */
  readonly limits: readonly {
    readonly limiter: ILimiter;
    readonly weigh: Measure | undefined;
    readonly settle: Measure | undefined;
  }[];
  readonly maxQueue: number;
  readonly signals: readonly AbortSignal[];
}

type Measure = (...args: unknown[]) => unknown;

const wrappings = new WeakMap<AnyFunction, Wrapping>();

/**
 * `fn`, but every call first waits until `limiter` lets it start. Calls start in the order in which they were made. A
 * call that takes its turn is counted at the moment it is made, so that `fn` itself never sees more than the limit.
 *
 * Wrapping a wrapped function keeps both limits, in either order: a call then waits for both and takes both at once.
 */
export function limit<F extends AnyFunction>(fn: F, limiter: ILimiter, options: LimitOptions<F> = {}): Limited<F> {
  return wrap("limit", fn, readLimiter("limit", "limiter", limiter), options);
}

/** `fn`, but at most `requests` calls start in any `windowMs` milliseconds. */
export function rateLimit<F extends AnyFunction>(
  fn: F,
  windowMs: number,
  requests = 1,
  options: LimitOptions<F> = {},
): Limited<F> {
  const window = readArgument("rateLimit", "windowMs", positive, windowMs);
  return wrap(
    "rateLimit",
    fn,
    new WindowLimiter(readArgument("rateLimit", "requests", count, requests), window),
    options,
  );
}

/** `fn`, but at most `max` calls run at the same time. */
export function concurrencyLimit<F extends AnyFunction>(fn: F, max: number, options: LimitOptions<F> = {}): Limited<F> {
  readArgument("concurrencyLimit", "max", countOrZero, max);
  return wrap("concurrencyLimit", fn, new ConcurrencyLimiter(max), options);
}

/** A window with no storage and no name. */
class WindowLimiter extends GateLimiter {
  constructor(max: number, windowMs: number) {
    super([
      new WindowGate(max, { name: "rateLimit", clock: systemClock, count: "weight", windowMs, ledger: createLedger() }),
    ]);
  }
}

function wrap<F extends AnyFunction>(owner: string, fn: F, limiter: ILimiter, options: LimitOptions<F>): Limited<F> {
  readArgument(owner, "fn", anyFunction, fn);
  const { maxQueue, signal: abort, weight, settle } = readOptions(owner, OPTIONS, options);
  const inner = wrappings.get(fn) ?? { fn, limits: [], maxQueue: Number.POSITIVE_INFINITY, signals: [] };
  const wrapping: Wrapping = {
    fn: inner.fn,
    limits: [{ limiter, weigh: weight as Measure | undefined, settle: settle as Measure | undefined }, ...inner.limits],
    maxQueue: Math.min(maxQueue, inner.maxQueue),
    signals: abort === undefined ? inner.signals : [abort, ...inner.signals],
  };
  const calls = new Calls(owner, wrapping);
  const limited = function (this: unknown, ...args: unknown[]): Promise<unknown> {
    return calls.call(this, args);
  };
  Object.defineProperties(limited, {
    name: { value: fn.name, configurable: true },
    running: { get: () => calls.running },
    waiting: { get: () => calls.waiting },
    onIdle: { value: () => calls.onIdle() },
  });
  wrappings.set(limited, wrapping);
  return limited as unknown as Limited<F>;
}

/** All calls of one wrapped function. */
class Calls {
  readonly fn: AnyFunction;
  running = 0;
  waiting = 0;
  readonly #owner: string;
  readonly #line: Line;
  readonly #limits: Wrapping["limits"];
  readonly #weighs: boolean;
  readonly #settles: boolean;
  readonly #maxQueue: number;
  readonly #signals: readonly AbortSignal[];
  #stopWatching: (() => void) | undefined;
  #idle: (() => void)[] = [];

  constructor(owner: string, { fn, limits, maxQueue, signals }: Wrapping) {
    this.fn = fn;
    this.#owner = owner;
    this.#limits = limits;
    this.#weighs = limits.some(({ weigh }) => weigh !== undefined);
    this.#settles = limits.some(({ settle }) => settle !== undefined);
    this.#line = limits.length === 1 ? lineOf(limits[0]!.limiter) : jointLine(limits.map(({ limiter }) => limiter));
    this.#maxQueue = maxQueue;
    this.#signals = signals;
  }

  call(self: unknown, args: unknown[]): Promise<unknown> {
    if (this.#signals.length > 0)
      for (const { aborted, reason } of this.#signals) if (aborted) return Promise.reject(reason);
    if (!this.#weighs && !this.#settles) {
      const ticket = new Ticket();
      if (this.#line.takeNow(ticket, 1)) return this.#run(ticket, self, args);
    }
    // A queue may be long: what waits in it is kept as small as it can be.
    const kept = args.length === 0 ? NO_ARGUMENTS : args;
    return new Promise((resolve) => {
      this.#wait(new Call(this.#weighs ? this.#weigh(args) : 1, this, self, kept, resolve));
    });
  }

  /** A call that need not wait. It is made before this returns. */
  #run(ticket: Ticket, self: unknown, args: unknown[]): Promise<unknown> {
    this.running += 1;
    let result: unknown;
    try {
      result = this.make(ticket, self, args);
    } catch (error) {
      this.#end(ticket);
      return Promise.reject(error);
    }
    const promise = result instanceof Promise ? result : Promise.resolve(result);
    return promise.then(
      (value) => {
        this.#end(ticket);
        return value;
      },
      (error: unknown) => {
        this.#end(ticket);
        throw error;
      },
    );
  }

  #end(ticket: Ticket): void {
    // Whatever could be taken on the spot is given back on the spot.
    void ticket.release();
    this.running -= 1;
    this.ended();
  }

  #wait(call: Call): void {
    this.waiting += 1;
    this.#line.join(call);
    if (!call.waits) return;
    // Somebody about whom a storage elsewhere is being asked does not wait yet.
    const asked = !this.#line.local && this.#line.first === call;
    if (this.waiting > this.#maxQueue && !asked) {
      this.#line.leave(call);
      call.fail(new QueueOverflowError(this.#maxQueue));
    } else if (this.#signals.length > 0) {
      this.#stopWatching ??= this.#watch();
    }
  }

  /** Makes the call, and says when. */
  make(ticket: Ticket, self: unknown, args: unknown[]): unknown {
    try {
      return this.fn.apply(self, args);
    } finally {
      ticket.started();
    }
  }

  /** Gives everything back after a call that succeeded. A promise only where one is needed. */
  giveBack(ticket: Ticket, result: unknown, args: unknown[]): Promise<void> | void {
    return this.#settles ? this.#settle(ticket, result, args) : ticket.release();
  }

  async #settle(ticket: Ticket, result: unknown, args: unknown[]): Promise<void> {
    try {
      for (const [group, { settle }] of this.#limits.entries()) {
        if (settle === undefined) continue;
        const used = readArgument(this.#owner, "settle(…)", countOrZero, settle(result, ...args));
        await ticket.settle(used, group);
      }
    } finally {
      await ticket.release();
    }
  }

  onIdle(): Promise<void> {
    if (this.running + this.waiting === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** A call started, or will not start. */
  leftLine(): void {
    this.waiting -= 1;
    if (this.waiting > 0) return;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  /** A call ended, one way or the other. */
  ended(): void {
    if (this.running + this.waiting > 0 || this.#idle.length === 0) return;
    const waiting = this.#idle;
    this.#idle = [];
    for (const resolve of waiting) resolve();
  }

  #weigh(args: unknown[]): Weights {
    const weights = this.#limits.map(({ weigh }) =>
      weigh === undefined ? 1 : readArgument(this.#owner, "weight(…)", count, weigh(...args)),
    );
    return weights.length === 1 ? weights[0]! : weights;
  }

  /** Listens to the signals for as long as somebody waits. */
  #watch(): () => void {
    const stops = this.#signals.map((abort) => {
      const onAbort = () => this.#abortAll(abort.reason);
      abort.addEventListener("abort", onAbort, { once: true });
      return () => abort.removeEventListener("abort", onAbort);
    });
    return () => {
      for (const stop of stops) stop();
    };
  }

  #abortAll(reason: unknown): void {
    const ours = [...this.#line].filter((waiter) => waiter instanceof Call && waiter.belongsTo(this));
    // From the last: the first one's leaving would let the next start.
    for (const call of ours.toReversed()) if (this.#line.leave(call)) call.fail(reason);
  }
}

class Call extends Waiter {
  waits = true;
  readonly #calls: Calls;
  readonly #self: unknown;
  readonly #args: unknown[];
  /** Rejects too: with a promise that is rejected. */
  readonly #resolve: (value: unknown) => void;

  constructor(weights: Weights, calls: Calls, self: unknown, args: unknown[], resolve: (value: unknown) => void) {
    super(weights);
    this.#calls = calls;
    this.#self = self;
    this.#args = args;
    this.#resolve = resolve;
  }

  belongsTo(calls: Calls): boolean {
    return this.#calls === calls;
  }

  ticket(): Ticket {
    return new Ticket();
  }

  start(ticket: Ticket): void {
    const calls = this.#calls;
    this.waits = false;
    calls.leftLine();
    calls.running += 1;
    let result: unknown;
    try {
      result = calls.make(ticket, this.#self, this.#args);
    } catch (error) {
      this.#end(ticket, true, error);
      return;
    }
    if (isThenable(result)) {
      Promise.resolve(result).then(
        (value) => this.#end(ticket, false, value),
        (error: unknown) => this.#end(ticket, true, error),
      );
    } else {
      this.#end(ticket, false, result);
    }
  }

  fail(reason: unknown): void {
    this.waits = false;
    this.#calls.leftLine();
    this.#calls.ended();
    this.#resolve(Promise.reject(reason));
  }

  /** Everything is given back first. If that fails the call fails, as after a `finally` that throws. */
  #end(ticket: Ticket, failed: boolean, outcome: unknown): void {
    const released = failed ? ticket.release() : this.#calls.giveBack(ticket, outcome, this.#args);
    if (released === undefined) {
      this.#finish(failed, outcome);
    } else {
      released.then(
        () => this.#finish(failed, outcome),
        (error: unknown) => this.#finish(true, error),
      );
    }
  }

  #finish(failed: boolean, outcome: unknown): void {
    this.#calls.running -= 1;
    this.#calls.ended();
    this.#resolve(failed ? Promise.reject(outcome) : outcome);
  }
}

const NO_ARGUMENTS: unknown[] = [];

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === "object" && value !== null && "then" in value;
}
