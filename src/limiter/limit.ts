import { systemClock } from "../core/clock.ts";
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
import { type AnyFunction, Calls, type Measure, NO_ARGUMENTS, type Wrapping } from "./calls.ts";
import { type Internals, internalsOfParts } from "./composition.ts";
import type { ILimiter } from "./limiter.ts";
import { checkNames, internalsOf, readLimiter } from "./parts.ts";
import { SlotsGate } from "./slots-gate.ts";
import { WindowGate } from "./window-gate.ts";

export interface LimitOptions<F extends AnyFunction = AnyFunction> {
  /** How many calls may wait; one more is rejected at once with a `QueueOverflowError`. Default: no bound. */
  readonly maxQueue?: number | undefined;
  /** Rejects all calls that wait, and all that come later, with its reason. Running calls continue. */
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
  maxQueue: optional(countOrInfinity, Infinity),
  signal: optional(signal),
  weight: optional(anyFunction),
  settle: optional(anyFunction),
};

const wrappings = new WeakMap<AnyFunction, Wrapping>();

/**
 * `fn`, but every call first waits until `limiter` grants it. Calls start in the order in which they were made. A
 * call is counted at the moment it is made, so that `fn` itself never sees more than the limit.
 *
 * Wrapping a wrapped function keeps both limits, in either order: a call then waits for both and charges both at once.
 */
export function limit<F extends AnyFunction>(fn: F, limiter: ILimiter, options: LimitOptions<F> = {}): Limited<F> {
  const internals = internalsOf(readLimiter("limit", "limiter", limiter));
  const inner = wrappings.get(fn)?.limits.flatMap((each) => each.limit.parts()) ?? [];
  checkNames("limit", "limiter", [...internals.parts(), ...inner]);
  return wrap("limit", fn, internals, options);
}

/** `fn`, but at most `requests` calls start in any `windowMs` milliseconds. */
export function rateLimit<F extends AnyFunction>(
  fn: F,
  windowMs: number,
  requests = 1,
  options: LimitOptions<F> = {},
): Limited<F> {
  const window = readArgument("rateLimit", "windowMs", positive, windowMs);
  const max = readArgument("rateLimit", "requests", count, requests);
  const gate = new WindowGate(max, { name: "rateLimit", clock: systemClock, windowMs: window });
  return wrap(
    "rateLimit",
    fn,
    internalsOfParts(() => [gate]),
    options,
  );
}

/** `fn`, but at most `max` calls run at the same time. */
export function concurrencyLimit<F extends AnyFunction>(fn: F, max: number, options: LimitOptions<F> = {}): Limited<F> {
  const slots = readArgument("concurrencyLimit", "max", countOrZero, max);
  const gate = new SlotsGate(slots, { name: "ConcurrencyLimiter", clock: systemClock });
  return wrap(
    "concurrencyLimit",
    fn,
    internalsOfParts(() => [gate]),
    options,
  );
}

function wrap<F extends AnyFunction>(owner: string, fn: F, internals: Internals, options: LimitOptions<F>): Limited<F> {
  readArgument(owner, "fn", anyFunction, fn);
  const { maxQueue, signal: abort, weight, settle } = readOptions(owner, OPTIONS, options);
  const inner = wrappings.get(fn) ?? { fn, limits: [], maxQueue: Infinity, signals: [] };
  const wrapping: Wrapping = {
    fn: inner.fn,
    limits: [
      { limit: internals, weigh: weight as Measure | undefined, used: settle as Measure | undefined },
      ...inner.limits,
    ],
    maxQueue: Math.min(maxQueue, inner.maxQueue),
    signals: abort === undefined ? inner.signals : [abort, ...inner.signals],
  };
  const calls = new Calls(owner, wrapping);
  const limited = function (this: unknown): Promise<unknown> {
    // oxlint-disable-next-line prefer-rest-params -- an empty rest array would be made for every call, and may wait long
    return calls.call(this, arguments.length === 0 ? NO_ARGUMENTS : [...arguments]);
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
