import { afterAll, systemClock } from "../core/clock.ts";
import { durationOrZero, readArgument } from "../core/options.ts";
import type { AnyFunction } from "./calls.ts";
import { concurrencyLimit, type Limited, type LimitOptions, rateLimit } from "./limit.ts";

/** Resolves when so many milliseconds have passed. */
export function resolveAfter(ms: number): Promise<void> {
  const delay = readArgument("resolveAfter", "ms", durationOrZero, ms);
  return new Promise((resolve) => {
    afterAll(systemClock, delay, resolve);
  });
}

/** `fn`, but one call starts per `msPerOp` milliseconds: `rateLimit(fn, msPerOp)`. The first is not delayed. */
export function rateLimit1<F extends AnyFunction>(fn: F, msPerOp: number, options: LimitOptions<F> = {}): Limited<F> {
  return rateLimit(fn, msPerOp, 1, options);
}

/** `fn`, but each call starts when the one before has ended, well or badly: `concurrencyLimit(fn, 1)`. */
export function serializePromises<F extends AnyFunction>(fn: F, options: LimitOptions<F> = {}): Limited<F> {
  return concurrencyLimit(fn, 1, options);
}
