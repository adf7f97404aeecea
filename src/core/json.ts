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
  const writer = { owner, path: [option], above: new Set<object>(), maxBytes, text: "" };
  write(writer, value);
  // A character takes three bytes at the most: short text need not be counted.
  if (writer.text.length * 3 > maxBytes) checkBytes(writer, new TextEncoder().encode(writer.text).length);
  return writer.text;
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

/** What is being written: the value is read once, and what was read is what is written. */
interface Writer {
  readonly owner: string;
  readonly path: (string | number)[];
  /** The objects that the value is inside of. */
  readonly above: Set<object>;
  readonly maxBytes: number;
  text: string;
}

function write(writer: Writer, value: unknown): void {
  switch (typeof value) {
    case "boolean":
      writer.text += value ? "true" : "false";
      return;
    case "number":
      if (!Number.isFinite(value)) throw wrong(writer, value, "a finite number");
      if (Object.is(value, -0)) throw wrong(writer, value, "0 (JSON has no -0)");
      writer.text += value;
      return;
    case "string":
      return writeText(writer, value);
    case "object":
      if (value === null) writer.text += "null";
      else writeInside(writer, value);
      return;
    case "undefined":
      throw wrong(writer, value, "a value that JSON can hold", "leave it out, or use null");
    case "bigint":
      throw wrong(writer, value, "a value that JSON can hold", "pass it as text");
    case "function":
    case "symbol":
      throw wrong(writer, value, "a value that JSON can hold");
  }
}

function writeText(writer: Writer, text: string): void {
  if (!text.isWellFormed()) throw wrong(writer, text, "text without lone surrogates");
  if (text.includes("\u0000")) throw wrong(writer, text, "text without U+0000");
  writer.text += JSON.stringify(text);
  checkBytes(writer, writer.text.length);
}

function writeInside(writer: Writer, value: object): void {
  const { above } = writer;
  if (above.has(value)) throw wrong(writer, value, "free of cycles");
  if (above.size >= DEEPEST) throw wrong(writer, value, `at most ${DEEPEST} levels deep`);
  above.add(value);
  if (Array.isArray(value)) writeArray(writer, value);
  else writeObject(writer, value);
  above.delete(value);
  checkBytes(writer, writer.text.length);
}

function writeArray(writer: Writer, array: readonly unknown[]): void {
  const { length } = array;
  if (Object.getPrototypeOf(array) !== Array.prototype) throw wrong(writer, array, "a plain array");
  // All that it owns are its places, and its length.
  if (Object.keys(array).length !== length || Reflect.ownKeys(array).length !== length + 1) {
    throw wrong(writer, array, "an array without holes or names");
  }
  writer.text += "[";
  for (let i = 0; i < length; i++) {
    if (i > 0) writer.text += ",";
    enter(writer, array, i);
  }
  writer.text += "]";
}

function writeObject(writer: Writer, object: object): void {
  const prototype: unknown = Object.getPrototypeOf(object);
  if (prototype !== Object.prototype && prototype !== null) {
    const hint = object instanceof Date ? "pass a date as text or as a number" : undefined;
    throw wrong(writer, object, "a plain object", hint);
  }
  if (Object.getOwnPropertySymbols(object).length > 0) throw wrong(writer, object, "free of symbols");
  const keys = Object.keys(object);
  if (Object.getOwnPropertyNames(object).length !== keys.length)
    throw wrong(writer, object, "free of hidden properties");
  writer.text += "{";
  for (const [i, key] of keys.entries()) {
    if (i > 0) writer.text += ",";
    writeText(writer, key);
    writer.text += ":";
    enter(writer, object, key);
  }
  writer.text += "}";
}

function enter(writer: Writer, container: object, key: string | number): void {
  writer.path.push(key);
  const property = Object.getOwnPropertyDescriptor(container, key);
  if (property === undefined || !("value" in property)) throw wrong(writer, undefined, "a value and not a getter");
  write(writer, property.value);
  writer.path.pop();
}

/** Looked at as it grows: what is too large is not written to its end. */
function checkBytes({ owner, path, maxBytes }: Writer, bytes: number): void {
  if (bytes <= maxBytes) return;
  throw new OptionsError(
    owner,
    String(path[0]),
    undefined,
    `at most ${maxBytes} bytes as JSON`,
    `it has ${bytes} or more; keep large things elsewhere and pass a reference`,
  );
}

function wrong({ owner, path }: Writer, value: unknown, expected: string, hint?: string): OptionsError {
  const [first = "", ...rest] = path;
  const where = rest.slice(0, 12).map((key) => (typeof key === "number" ? `[${key}]` : `.${key.slice(0, 40)}`));
  return new OptionsError(owner, `${first}${where.join("")}${rest.length > 12 ? "…" : ""}`, value, expected, hint);
}
