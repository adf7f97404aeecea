import { QueueOverflowError } from "../core/errors.ts";
import { readArgument, weight, weightOrZero } from "../core/options.ts";
import { type Inside, jointLine } from "./composition.ts";
import { type Line, NOT_NOW } from "./line.ts";
import { type Member, release, settle, reportCalled, type Tokens, DEFAULT_WEIGHT, type Weights } from "./charging.ts";
import { Waiter } from "./waiter.ts";

// oxlint-disable-next-line typescript/no-explicit-any -- any function at all may be wrapped
export type AnyFunction = (this: any, ...args: any[]) => unknown;

/** The parts of a wrapped function, so that a wrapper around a wrapper can charge both limits at once. */
export interface Wrapping {
  readonly fn: AnyFunction;
  /** Outermost first. */
  readonly limits: readonly {
    readonly inside: Inside;
    readonly weigh: Measure | undefined;
    readonly used: Measure | undefined;
  }[];
  readonly maxQueue: number;
  readonly signals: readonly AbortSignal[];
}

export type Measure = (...args: unknown[]) => unknown;

/** All calls of one wrapped function. */
export class Calls {
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
  /** Calls that were made and are not over. */
  #unfinished = 0;
  #stopWatching: (() => void) | undefined;
  #idle: (() => void)[] = [];

  constructor(owner: string, { fn, limits, maxQueue, signals }: Wrapping) {
    this.fn = fn;
    this.#owner = owner;
    this.#limits = limits;
    this.#weighs = limits.some(({ weigh }) => weigh !== undefined);
    this.#settles = limits.some(({ used }) => used !== undefined);
    this.#line =
      limits.length === 1
        ? limits[0]!.inside.line
        : jointLine(
            owner,
            limits.map(({ inside }) => inside),
          );
    this.#maxQueue = maxQueue;
    this.#signals = signals;
  }

  call(self: unknown, args: unknown[]): Promise<unknown> {
    if (this.#signals.length > 0) {
      for (const { aborted, reason } of this.#signals) if (aborted) return Promise.reject(reason);
    }
    let weights = DEFAULT_WEIGHT;
    if (this.#weighs) {
      try {
        weights = this.#weigh(args);
      } catch (error) {
        return Promise.reject(error);
      }
    }
    this.#unfinished += 1;
    const tokens = this.#line.takeNow(weights);
    if (tokens !== NOT_NOW && !this.#settles) return this.#run(this.#line.members, tokens, weights, self, args);
    const promise = new Promise(keepResolve);
    const call = new Call(weights, this, self, args, lastResolve);
    lastResolve = NO_RESOLVE;
    this.waiting += 1;
    if (tokens === NOT_NOW) this.#wait(call);
    else call.start(this.#line.members, tokens);
    return promise;
  }

  /** A call that need not wait. It is made before this returns. */
  #run(members: readonly Member[], tokens: Tokens, weights: Weights, self: unknown, args: unknown[]): Promise<unknown> {
    this.running += 1;
    let result: Promise<unknown>;
    try {
      result = asPromise(this.make(members, tokens, self, args));
    } catch (error) {
      result = Promise.reject(error);
    }
    return result.then(
      (value) => {
        this.#end(members, tokens, weights);
        return value;
      },
      (error: unknown) => {
        this.#end(members, tokens, weights);
        throw error;
      },
    );
  }

  #end(members: readonly Member[], tokens: Tokens, weights: Weights): void {
    this.running -= 1;
    // Charges that were made synchronously are returned synchronously.
    void release(members, tokens, weights);
    this.finished();
  }

  #wait(call: Call): void {
    this.#line.join(call);
    if (!call.inLine) return;
    // The call that a remote part is being asked about does not count as waiting yet.
    const { first, local } = this.#line;
    const asked = !local && first instanceof Call && first.calls === this ? 1 : 0;
    if (this.waiting - asked > this.#maxQueue) {
      this.#line.leave(call);
      call.fail(new QueueOverflowError(this.#maxQueue));
    } else if (this.#signals.length > 0) {
      this.#stopWatching ??= this.#watch();
    }
  }

  /** Makes the call, and reports when. */
  make(members: readonly Member[], tokens: Tokens, self: unknown, args: unknown[]): unknown {
    try {
      return this.fn.apply(self, args);
    } finally {
      reportCalled(members, tokens);
    }
  }

  /** Returns all charges after a call that succeeded. A promise only where one is needed. */
  giveBack(call: Call, members: readonly Member[], tokens: Tokens, result: unknown): Promise<void> | void {
    return this.#settles ? this.#settle(call, members, tokens, result) : release(members, tokens, call.weights);
  }

  async #settle(call: Call, members: readonly Member[], tokens: Tokens, result: unknown): Promise<void> {
    try {
      for (const [group, { used }] of this.#limits.entries()) {
        if (used === undefined) continue;
        const counts = readArgument(this.#owner, "settle(…)", weightOrZero, used(result, ...call.args));
        await settle(members, tokens, counts, group);
      }
    } finally {
      await release(members, tokens, call.weights);
    }
  }

  onIdle(): Promise<void> {
    if (this.#unfinished === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** A call started, or will not start. */
  leftLine(): void {
    this.waiting -= 1;
    if (this.waiting > 0) return;
    this.#stopWatching?.();
    this.#stopWatching = undefined;
  }

  /** A call has ended, and all of its charges are returned. */
  finished(): void {
    this.#unfinished -= 1;
    if (this.#unfinished > 0 || this.#idle.length === 0) return;
    const waiting = this.#idle;
    this.#idle = [];
    for (const resolve of waiting) resolve();
  }

  #weigh(args: unknown[]): Weights {
    const weights = this.#limits.map(({ weigh }) =>
      weigh === undefined ? undefined : readArgument(this.#owner, "weight(…)", weight, weigh(...args)),
    );
    return weights.length === 1 ? weights[0]! : weights;
  }

  /** Listens to the signals while calls wait. */
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
    const ours = [...this.#line].filter((waiter) => waiter instanceof Call && waiter.calls === this);
    // From the last: removing the first would start the next.
    for (const call of ours.toReversed()) if (this.#line.leave(call)) call.fail(reason);
  }
}

class Call extends Waiter {
  readonly calls: Calls;
  self: unknown;
  args: unknown[];
  /** Rejects too: with a promise that is rejected. */
  readonly #resolve: (value: unknown) => void;

  constructor(weights: Weights, calls: Calls, self: unknown, args: unknown[], resolve: (value: unknown) => void) {
    super(weights);
    this.calls = calls;
    this.self = self;
    this.args = args;
    this.#resolve = resolve;
  }

  start(members: readonly Member[], tokens: Tokens): void {
    const { calls } = this;
    calls.leftLine();
    calls.running += 1;
    let result: Promise<unknown>;
    try {
      result = asPromise(calls.make(members, tokens, this.self, this.args));
    } catch (error) {
      result = Promise.reject(error);
    }
    result.then(
      (value) => {
        calls.running -= 1;
        this.#finish(calls.giveBack(this, members, tokens, value), false, value);
      },
      (error: unknown) => {
        calls.running -= 1;
        this.#finish(release(members, tokens, this.weights), true, error);
      },
    );
  }

  fail(reason: unknown): void {
    // It may stay linked in the line for a while.
    this.self = undefined;
    this.args = NO_ARGUMENTS;
    this.calls.leftLine();
    this.calls.finished();
    this.#resolve(Promise.reject(reason));
  }

  /** Waits until all charges are returned. If that fails the call fails, as after a `finally` that throws. */
  #finish(given: Promise<void> | void, failed: boolean, outcome: unknown): void {
    if (given !== undefined) {
      given.then(
        () => this.#finish(undefined, failed, outcome),
        (error: unknown) => this.#finish(undefined, true, error),
      );
      return;
    }
    this.calls.finished();
    this.#resolve(failed ? Promise.reject(outcome) : outcome);
  }
}

/** A native promise without overridden methods, so that `then` on it cannot throw. */
function asPromise(result: unknown): Promise<unknown> {
  if (!(result instanceof Promise)) return Promise.resolve(result);
  const plain = result.constructor === Promise && result.then === Promise.prototype.then;
  return plain ? result : new Promise((resolve) => resolve(result));
}

export const NO_ARGUMENTS: unknown[] = [];

/** The `resolve` of the latest promise. One executor for all, because a closure for each would fill the heap. */
const NO_RESOLVE = (_value: unknown): void => {};
let lastResolve: (value: unknown) => void = NO_RESOLVE;
function keepResolve(resolve: (value: unknown) => void): void {
  lastResolve = resolve;
}
