import { OptionsError } from "./errors.ts";

/** What JSON holds and gives back exactly. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** Deeper than this no payload goes: parsers and people give up on it. */
const DEEPEST = 100;

/**
 * The JSON text of `value`, if reading it back gives exactly the same value; else an `OptionsError` that names the place.
 * No code of the value is run: what has getters, `toJSON` or a class of its own is refused. `-0`, `NaN`, `undefined`, dates,
 * lone surrogates and U+0000 would come back as something else, or not at all, from one storage or another.
 */
export function toJson(owner: string, option: string, value: unknown, maxBytes: number): string {
  check({ owner, path: [option], above: new Set() }, value);
  const text = JSON.stringify(value);
  // A character takes three bytes at the most: short text need not be counted.
  const bytes = text.length * 3 <= maxBytes ? 0 : new TextEncoder().encode(text).length;
  if (bytes > maxBytes) {
    throw new OptionsError(
      owner,
      option,
      value,
      `at most ${maxBytes} bytes as JSON`,
      `it has ${bytes}; keep large things elsewhere and pass a reference`,
    );
  }
  return text;
}

/** The value that `text` holds, or undefined where it is no JSON: somebody else has written it. */
export function fromJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** The same text for the same value, in whatever order its keys came. `text` is JSON. */
export function canonicalJson(text: string): string {
  return JSON.stringify(JSON.parse(text), (_, value: unknown) =>
    typeof value === "object" && value !== null && !Array.isArray(value)
      ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
      : value,
  );
}

interface Place {
  readonly owner: string;
  readonly path: (string | number)[];
  /** The objects that the value is inside of. */
  readonly above: Set<object>;
}

function check(place: Place, value: unknown): void {
  switch (typeof value) {
    case "boolean":
      return;
    case "number":
      if (!Number.isFinite(value)) throw wrong(place, value, "a finite number");
      if (Object.is(value, -0)) throw wrong(place, value, "0 (JSON has no -0)");
      return;
    case "string":
      return checkText(place, value);
    case "object":
      return value === null ? undefined : checkInside(place, value);
    case "undefined":
      throw wrong(place, value, "a value that JSON can hold", "leave it out, or use null");
    case "bigint":
      throw wrong(place, value, "a value that JSON can hold", "pass it as text");
    case "function":
    case "symbol":
      throw wrong(place, value, "a value that JSON can hold");
  }
}

function checkText(place: Place, text: string): void {
  if (!text.isWellFormed()) throw wrong(place, text, "text without lone surrogates");
  if (text.includes("\u0000")) throw wrong(place, text, "text without U+0000");
}

function checkInside(place: Place, value: object): void {
  if (place.above.has(value)) throw wrong(place, value, "free of cycles");
  if (place.above.size >= DEEPEST) throw wrong(place, value, `at most ${DEEPEST} levels deep`);
  place.above.add(value);
  if (Array.isArray(value)) checkArray(place, value);
  else checkObject(place, value);
  place.above.delete(value);
}

function checkArray(place: Place, array: readonly unknown[]): void {
  if (Object.getPrototypeOf(array) !== Array.prototype) throw wrong(place, array, "a plain array");
  if (Object.keys(array).length !== array.length) throw wrong(place, array, "an array without holes or names");
  for (let i = 0; i < array.length; i++) enter(place, array, i);
}

function checkObject(place: Place, object: object): void {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    const hint = object instanceof Date ? "pass a date as text or as a number" : undefined;
    throw wrong(place, object, "a plain object", hint);
  }
  if (Object.getOwnPropertySymbols(object).length > 0) throw wrong(place, object, "free of symbols");
  const keys = Object.keys(object);
  if (Object.getOwnPropertyNames(object).length !== keys.length)
    throw wrong(place, object, "free of hidden properties");
  for (const key of keys) {
    checkText(place, key);
    enter(place, object, key);
  }
}

function enter(place: Place, container: object, key: string | number): void {
  place.path.push(key);
  const property = Object.getOwnPropertyDescriptor(container, key);
  if (property === undefined || !("value" in property)) throw wrong(place, undefined, "a value and not a getter");
  check(place, property.value);
  place.path.pop();
}

function wrong({ owner, path }: Place, value: unknown, expected: string, hint?: string): OptionsError {
  const [first = "", ...rest] = path;
  const where = rest.slice(0, 12).map((key) => (typeof key === "number" ? `[${key}]` : `.${key.slice(0, 40)}`));
  return new OptionsError(owner, `${first}${where.join("")}${rest.length > 12 ? "…" : ""}`, value, expected, hint);
}
