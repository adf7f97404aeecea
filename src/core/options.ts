import type { Clock } from "./clock.ts";
import { toMilliseconds } from "./duration.ts";
import { OptionsError } from "./errors.ts";
import { nearest } from "./nearest.ts";
import type { Random } from "./random.ts";

/**
 * How one option is read: `read` returns the value to use, or `undefined` if the input is invalid, and
 * `expected` completes the sentence "expected `max` to be …".
 */
export interface Check<T> {
  readonly expected: string;
  readonly read: (value: unknown) => T | undefined;
}

const check = <T>(expected: string, read: (value: unknown) => T | undefined): Check<T> => ({ expected, read });

const number = (expected: string, fits: (value: number) => boolean): Check<number> =>
  // `-0` becomes `0`: it would be written and compared as another number.
  check(expected, (value) => (typeof value === "number" && fits(value) ? value + 0 : undefined));

export function integer(least: number, most: number): Check<number> {
  return number(`an integer from ${least} to ${most}`, (n) => Number.isInteger(n) && n >= least && n <= most);
}

/** How many: 1, 2, 3, … */
export const count = /* @__PURE__ */ number("an integer >= 1", (n) => Number.isSafeInteger(n) && n >= 1);
/** How many, 0 included. */
export const countOrZero = /* @__PURE__ */ number("an integer >= 0", (n) => Number.isSafeInteger(n) && n >= 0);
/** How many, or no bound at all. */
export const countOrInfinity = /* @__PURE__ */ number(
  "an integer >= 0, or Infinity",
  (n) => n === Infinity || (Number.isSafeInteger(n) && n >= 0),
);
/** The largest number of attempts, failures, shares, probes or slots: the largest that every storage keeps. */
export const LARGEST_COUNT = 2_147_483_647;
/** How many, where storages keep the number in a small integer: 1, 2, 3, … */
export const smallCount = /* @__PURE__ */ integer(1, LARGEST_COUNT);
export const smallCountOrZero = /* @__PURE__ */ integer(0, LARGEST_COUNT);
/** How many workers one server has: each is a loop of its own in this process. */
const MOST_WORKERS = 10_000;
export const workerCount = /* @__PURE__ */ integer(1, MOST_WORKERS);
export const workerCountOrZero = /* @__PURE__ */ integer(0, MOST_WORKERS);
/** How much a start counts for. Bounded so that sums of millions of them are exact. */
const HEAVIEST = 2 ** 32 - 1;
export const weight = /* @__PURE__ */ integer(1, HEAVIEST);
export const weightOrZero = /* @__PURE__ */ integer(0, HEAVIEST);
/** A length of time, or another measure that makes no sense at zero. Far beyond the bounds arithmetic would suffer. */
export const positive = /* @__PURE__ */ number(
  "a finite number > 0 (from 1e-6 to 1e12)",
  (n) => n >= 1e-6 && n <= 1e12,
);
/** A factor that makes things grow. */
export const growth = /* @__PURE__ */ number("a finite number > 1", (n) => Number.isFinite(n) && n > 1);
/** A factor that makes things shrink. */
export const shrinkage = /* @__PURE__ */ number("a number > 0 and < 1", (n) => n > 0 && n < 1);

/** A length of time given in milliseconds or as text, `"250ms"`. */
export const durationOrZero = /* @__PURE__ */ check(
  'a duration >= 0 (milliseconds, or text such as "250ms", "5s")',
  (value) => {
    const ms = toMilliseconds(value);
    return ms >= 0 && ms <= 1e15 ? ms + 0 : undefined;
  },
);
export const positiveDuration = /* @__PURE__ */ check(
  'a duration > 0 (milliseconds, or text such as "250ms", "5s")',
  (value) => {
    const ms = toMilliseconds(value);
    return ms > 0 && ms <= 1e15 ? ms : undefined;
  },
);

/** A name that is shown in answers and logs. */
export const name = /* @__PURE__ */ check("a string of 1 to 255 characters", (value) =>
  typeof value === "string" && value.length >= 1 && value.length <= 255 ? value : undefined,
);

/** One word out of a few. */
export const oneOf = <const T extends string>(...words: readonly T[]): Check<T> =>
  check(words.map((word) => `"${word}"`).join(" or "), (value) => words.find((word) => word === value));

/** A switch that is only ever turned on. */
export const yes = /* @__PURE__ */ check("true, or left out", (value) => (value === true ? value : undefined));

/** What is checked elsewhere. */
export const anything = /* @__PURE__ */ check<unknown>("anything", (value) => value);

/** Any function. Its parameters and result are given by the caller's type. */
export const fn = /* @__PURE__ */ check("a function", (value) =>
  typeof value === "function" ? (value as (...args: never[]) => unknown) : undefined,
);

export const clock = /* @__PURE__ */ check("a clock with now(), wall() and after()", (value) =>
  hasMethods(value, ["now", "wall", "after"]) ? (value as unknown as Clock) : undefined,
);

export const random = /* @__PURE__ */ check("a function that returns a number from 0 to 1", (value) =>
  typeof value === "function" ? (value as Random) : undefined,
);

export const signal = /* @__PURE__ */ check("an AbortSignal", (value) =>
  hasMethods(value, ["addEventListener", "removeEventListener"]) && "aborted" in value
    ? (value as unknown as AbortSignal)
    : undefined,
);

/** A valid Date. */
export const date = /* @__PURE__ */ check("a valid Date", (value) =>
  value instanceof Date && !Number.isNaN(value.getTime()) ? value : undefined,
);

/** Is `value` a plain object, `{ … }`? An instance of a class may hide its fields, or mean something else. */
export function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== "object" || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  // A prototype that has no prototype is that of plain objects, of this realm or another.
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/** Is `value` an object on which all these methods can be called? */
export function hasMethods<const Name extends string>(
  value: unknown,
  methods: readonly Name[],
): value is Record<Name, (...args: never[]) => unknown> {
  return missingMethod(value, methods) === undefined;
}

/** The first of `methods` that `value` does not have. */
export function missingMethod(value: unknown, methods: readonly string[]): string | undefined {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return methods[0];
  return methods.find((method) => typeof (value as Record<string, unknown>)[method] !== "function");
}

/** Reads one argument, or throws an `OptionsError`. `owner` is the class or function it was given to. */
export function readArgument<T>(owner: string, option: string, rule: Check<T>, value: unknown): T {
  const read = rule.read(value);
  if (read === undefined) throw new OptionsError(owner, option, value, rule.expected);
  return read;
}

/** The rule for one option, and its default. An option without a `fallback` is required. */
export interface OptionRule<T> {
  readonly check: Check<T>;
  readonly fallback?: { readonly value: T };
}

/** An option that must be given. */
export const required = <T>(rule: Check<T>): OptionRule<T> => ({ check: rule });
/** An option with a default; without one it is undefined where it is left out. */
export const optional = <T, Default extends T | undefined = undefined>(
  rule: Check<T>,
  value?: Default,
): OptionRule<T | Default> => ({ check: rule, fallback: { value: value as Default } });

/** What `readOptions` returns for a table of rules. */
export type OptionsRead<Rules extends Readonly<Record<string, OptionRule<unknown>>>> = {
  readonly [Key in keyof Rules]: Rules[Key] extends OptionRule<infer T> ? T : never;
};

/**
 * Reads an options object by its table of rules. Every option is checked, each is read once, and one that the table
 * does not know is refused: in a limit, a misspelt option is the dangerous kind.
 */
export function readOptions<const Rules extends Readonly<Record<string, OptionRule<unknown>>>>(
  owner: string,
  rules: Rules,
  options: unknown,
): OptionsRead<Rules> {
  if (typeof options !== "object" || options === null || Symbol.iterator in options) {
    throw new OptionsError(owner, "options", options, "an object");
  }
  const known = Object.keys(rules);
  for (const key of Object.keys(options)) {
    if (!Object.hasOwn(rules, key)) {
      const near = nearest(key, known);
      throw new OptionsError(
        owner,
        key,
        (options as Record<string, unknown>)[key],
        "left out (there is no such option)",
        near === undefined ? `known options: ${known.join(", ")}` : `did you mean \`${near}\`?`,
      );
    }
  }
  const read: Record<string, unknown> = {};
  for (const key of known) {
    const rule = rules[key]!;
    // Properties of a prototype are not options of this call.
    const value = Object.hasOwn(options, key) ? (options as Record<string, unknown>)[key] : undefined;
    read[key] =
      value === undefined && rule.fallback !== undefined
        ? rule.fallback.value
        : readArgument(owner, key, rule.check, value);
  }
  return read as OptionsRead<Rules>;
}
