import { QueueOverflowError } from "../core/errors.ts";
import { readArgument, weight, weightOrZero } from "../core/options.ts";
import { type Internals, jointLine } from "./composition.ts";
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
    readonly limit: Internals;
    readonly weigh: Measure | undefined;
    readonly used: Measure | undefined;
  }[];
  readonly maxQueue: number;
  readonly signals: readonly AbortSignal[];
}

export type Measure = (...args: unknown[]) => unknown;

/** All calls of one wrapped function. */
export class Calls {
  running = 0;
  waiting = 0;
  readonly #owner: string;
  readonly #fn: AnyFunction;
  readonly #wrapping: Wrapping;
  readonly #line: Line;
  readonly #weighs: boolean;
  readonly #settles: boolean;
  /** Calls that were made and are not over. */
  #unfinished = 0;
  /** Are the signals listened to? Only while calls wait. */
  #watching = false;
  #idle: PromiseWithResolvers<void> | undefined;

  constructor(owner: string, wrapping: Wrapping) {
    const { fn, limits } = wrapping;
    this.#owner = owner;
    this.#fn = fn;
    this.#wrapping = wrapping;
    this.#weighs = limits.some(({ weigh }) => weigh);
    this.#settles = limits.some(({ used }) => used);
    this.#line = limits.length === 1 ? limits[0]!.limit.line : jointLine(limits.map(({ limit }) => limit));
  }

  call(self: unknown, args: unknown[]): Promise<unknown> {
    const aborted = this.#aborted();
    if (aborted !== undefined) return Promise.reject(aborted.reason);
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
    if (tokens !== NOT_NOW) return this.#run(this.#line.composition().members, tokens, weights, self, args);
    const promise = new Promise(keepResolve);
    const call = new Call(weights, this, self, args, lastResolve!);
    lastResolve = undefined;
    this.waiting += 1;
    this.#line.join(call);
    if (call.inLine) this.#wait(call);
    return promise;
  }

  /** A call that need not wait. */
  #run(members: readonly Member[], tokens: Tokens, weights: Weights, self: unknown, args: unknown[]): Promise<unknown> {
    return this.make(members, tokens, self, args).then(
      (result) => this.succeeded(members, tokens, weights, args, result),
      (error: unknown) => this.failed(members, tokens, weights, error),
    );
  }

  /** Makes the call before this returns, and reports when. */
  make(members: readonly Member[], tokens: Tokens, self: unknown, args: unknown[]): Promise<unknown> {
    this.running += 1;
    let result: Promise<unknown>;
    try {
      result = asPromise(this.#fn.apply(self, args));
    } catch (error) {
      result = Promise.reject(error);
    }
    reportCalled(members, tokens);
    return result;
  }

  /** Returns all charges of a call. A promise only where one is needed; if that fails, the call fails. */
  succeeded(members: readonly Member[], tokens: Tokens, weights: Weights, args: unknown[], result: unknown): unknown {
    this.running -= 1;
    const returned = this.#settles
      ? this.#settle(members, tokens, weights, args, result)
      : release(members, tokens, weights);
    if (returned !== undefined) return this.#finishAfter(returned, result);
    this.#finished();
    return result;
  }

  async failed(members: readonly Member[], tokens: Tokens, weights: Weights, error: unknown): Promise<never> {
    this.running -= 1;
    const returned = release(members, tokens, weights);
    try {
      if (returned === undefined) this.#finished();
      else await this.#finishAfter(returned);
    } catch {
      // If the limiter fails as well, the error of the call is the one to report.
    }
    throw error;
  }

  /** A method of its own: a closure in `succeeded` would allocate a context for every call, which costs 2 to 6 %. */
  async #finishAfter(returned: Promise<void>, result?: unknown): Promise<unknown> {
    try {
      await returned;
    } finally {
      this.#finished();
    }
    return result;
  }

  async #settle(
    members: readonly Member[],
    tokens: Tokens,
    weights: Weights,
    args: unknown[],
    result: unknown,
  ): Promise<void> {
    try {
      for (const [group, { used }] of this.#wrapping.limits.entries()) {
        if (used === undefined) continue;
        const counts = readArgument(this.#owner, "settle(…)", weightOrZero, used(result, ...args));
        await settle(members, tokens, counts, group);
      }
    } finally {
      await release(members, tokens, weights);
    }
  }

  /** The call has joined the line. */
  #wait(call: Call): void {
    const { maxQueue, signals } = this.#wrapping;
    // The call that a remote part is being asked about does not count as waiting yet.
    const { first } = this.#line;
    const asked = !this.#line.composition().local && first instanceof Call && first.calls === this ? 1 : 0;
    if (this.waiting - asked > maxQueue) {
      this.#line.leave(call);
      call.fail(new QueueOverflowError(maxQueue));
    } else if (!this.#watching && signals.length > 0) {
      this.#watching = true;
      for (const abort of signals) abort.addEventListener("abort", this.#abortAll);
    }
  }

  onIdle(): Promise<void> {
    return this.#unfinished === 0 ? Promise.resolve() : (this.#idle ??= Promise.withResolvers()).promise;
  }

  /** A call started, or will not start. */
  leftLine(): void {
    this.waiting -= 1;
    if (this.waiting > 0 || !this.#watching) return;
    this.#watching = false;
    for (const abort of this.#wrapping.signals) abort.removeEventListener("abort", this.#abortAll);
  }

  /** The turn of a call will not come. */
  refused(): void {
    this.leftLine();
    this.#finished();
  }

  /** A call has ended, and all of its charges are returned. */
  #finished(): void {
    this.#unfinished -= 1;
    if (this.#unfinished > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  #weigh(args: unknown[]): Weights {
    const weights = this.#wrapping.limits.map(({ weigh }) =>
      weigh === undefined ? undefined : readArgument(this.#owner, "weight(…)", weight, weigh(...args)),
    );
    return weights.length === 1 ? weights[0]! : weights;
  }

  #aborted(): AbortSignal | undefined {
    return this.#wrapping.signals.find(({ aborted }) => aborted);
  }

  readonly #abortAll = (): void => {
    const reason: unknown = this.#aborted()?.reason;
    const ours: Call[] = [];
    for (let { first: waiter } = this.#line; waiter !== undefined; waiter = waiter.next) {
      if (waiter instanceof Call && waiter.calls === this) ours.push(waiter);
    }
    // From the last: removing the first would start the next.
    for (const call of ours.toReversed()) if (this.#line.leave(call)) call.fail(reason);
  };
}

class Call extends Waiter {
  readonly calls: Calls;
  self: unknown;
  args: unknown[];
  /** Rejects too: with a promise that is rejected. */
  readonly resolve: (value: unknown) => void;

  constructor(weights: Weights, calls: Calls, self: unknown, args: unknown[], resolve: (value: unknown) => void) {
    super(weights);
    this.calls = calls;
    this.self = self;
    this.args = args;
    this.resolve = resolve;
  }

  start(members: readonly Member[], tokens: Tokens): void {
    const { calls, weights } = this;
    calls.leftLine();
    calls.make(members, tokens, this.self, this.args).then(
      (result) => this.resolve(calls.succeeded(members, tokens, weights, this.args, result)),
      (error: unknown) => this.resolve(calls.failed(members, tokens, weights, error)),
    );
  }

  fail(reason: unknown): void {
    // It may stay linked in the line for a while.
    this.self = undefined;
    this.args = NO_ARGUMENTS;
    this.calls.refused();
    this.resolve(Promise.reject(reason));
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
let lastResolve: ((value: unknown) => void) | undefined;
function keepResolve(resolve: (value: unknown) => void): void {
  lastResolve = resolve;
}
