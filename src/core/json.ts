import { OptionsError } from "./errors.ts";

/** Values that survive a round trip through JSON exactly. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** The deepest payload that is accepted: parsers of some storages refuse deeper ones. */
const DEEPEST = 100;

/**
 * The JSON text of `value`, if reading it back gives the same value; else an `OptionsError` that names the place. Members that
 * are `undefined` are left out: reading them gives `undefined` all the same. No code of the value is run: values with getters,
 * `toJSON` or a class of their own are refused. `-0`, `NaN`, `undefined` in an array, dates, lone surrogates and U+0000 are refused, since
 * some storage would change or lose them.
 */
export function toJson(owner: string, option: string, value: unknown, maxBytes: number): string {
  return written(writerFor(owner, option, maxBytes), value);
}

/** What is stored of a value that must not be refused. */
export interface KeptJson {
  /** JSON text; null: nothing can be kept. */
  readonly text: string | null;
  /** What part of the value was changed or lost. Undefined: it is kept exactly. */
  readonly warning: string | undefined;
}

/**
 * The same for a value that must not be refused, such as a result: never throws. A value that cannot be kept exactly is kept as
 * `JSON.stringify` writes it, in text that every storage accepts; a value that it cannot write, or that is too large, is not kept.
 */
export function keepJson(what: string, value: unknown, maxBytes: number): KeptJson {
  const writer = writerFor("", what, maxBytes);
  try {
    const text = written(writer, value);
    const { leftOut } = writer;
    return { text, warning: leftOut && `${leftOut} is undefined and was left out` };
  } catch (error) {
    const reason = writer.refusal ?? `it cannot be read (${reasonOf(error)})`;
    const text = writer.tooLarge ? null : asJsonWrites(what, value, maxBytes);
    const outcome = text === null ? "could not be kept" : "was kept as JSON.stringify writes it";
    return { text, warning: `${what} ${outcome}: ${reason}` };
  }
}

/** The text of `JSON.stringify`, without characters that storages refuse; null: there is none, or it is too large or too deep. */
function asJsonWrites(what: string, value: unknown, maxBytes: number): string | null {
  try {
    let size = 0;
    // Bounded while it is written: a value that holds another one many times is far larger as text.
    const bounded = (_: string, part: unknown): unknown => {
      size += typeof part === "string" ? part.length + 1 : 1;
      if (size > maxBytes) throw new RangeError("too large");
      return part;
    };
    const text = JSON.stringify(value, bounded) as string | undefined;
    return text === undefined ? null : toJson("", what, JSON.parse(wellFormed(text)), maxBytes);
  } catch {
    return null;
  }
}

/** `JSON.stringify` writes U+0000 and lone surrogates as these escapes, and writes nothing else like them. */
function wellFormed(json: string): string {
  return json.replaceAll(/\\(u0000|ud[89a-f][0-9a-f]{2}|.)/g, (escape, named: string) =>
    named === "u0000" ? "" : named.startsWith("ud") ? "\ufffd" : escape,
  );
}

function reasonOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message.slice(0, 200) : typeof error;
  } catch {
    return "an error that cannot be read";
  }
}

/** The value of `text`, or undefined if it is no JSON: it may have been written by SQL. */
export function fromJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/**
 * The same text for the same value, in whatever order its keys came. `text` is JSON. Keys are in the order of their code points,
 * as the SQL of Postgres has them too; the text is written here, for an object would put `"10"` before `"9a"`.
 */
export function canonicalJson(text: string): string {
  return canonical(JSON.parse(text));
}

function canonical(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const members = Object.keys(value)
    .toSorted(byCodePoint)
    .map((key) => `${JSON.stringify(key)}:${canonical((value as Record<string, unknown>)[key])}`);
  return `{${members.join(",")}}`;
}

/** JavaScript compares code units, by which a character beyond U+FFFF comes before U+E000. */
function byCodePoint(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  for (let i = 0; i < shorter; i++) {
    const [left, right] = [a.charCodeAt(i), b.charCodeAt(i)];
    if (left !== right) return isSurrogate(left) === isSurrogate(right) ? left - right : isSurrogate(left) ? 1 : -1;
  }
  return a.length - b.length;
}

const isSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdfff;

/**
 * The state of one writing: each part of the value is read once, and that reading is written. A plain object and functions: with a class
 * of private methods, measured, `Queue.add` takes 1.18 times as long.
 */
interface Writer {
  readonly owner: string;
  readonly path: (string | number)[];
  /** The objects that the value is inside of. */
  readonly above: Set<object>;
  readonly maxBytes: number;
  text: string;
  /** The first member that was left out because it is `undefined`. */
  leftOut: string | undefined;
  tooLarge: boolean;
  /** Why the value is refused. */
  refusal: string | undefined;
}

function writerFor(owner: string, option: string, maxBytes: number): Writer {
  return {
    owner,
    path: [option],
    above: new Set(),
    maxBytes,
    text: "",
    leftOut: undefined,
    tooLarge: false,
    refusal: undefined,
  };
}

function written(writer: Writer, value: unknown): string {
  write(writer, value);
  // A character takes at most three bytes: short text need not be measured.
  if (writer.text.length * 3 > writer.maxBytes) checkBytes(writer, new TextEncoder().encode(writer.text).length);
  return writer.text;
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
      throw wrong(writer, value, "a value that JSON can hold", "use null");
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
  // An array owns only its elements and its length.
  if (Object.keys(array).length !== length || Reflect.ownKeys(array).length !== length + 1) {
    throw wrong(writer, array, "an array without holes or names");
  }
  writer.text += "[";
  for (let i = 0; i < length; i++) {
    if (i > 0) writer.text += ",";
    enter(writer, i, valueAt(writer, array, i));
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
  let separator = "";
  for (const key of keys) {
    const value = valueAt(writer, object, key);
    if (value === undefined) {
      writer.leftOut ??= placeOf([...writer.path, key]);
      continue;
    }
    writer.text += separator;
    separator = ",";
    writeText(writer, key);
    writer.text += ":";
    enter(writer, key, value);
  }
  writer.text += "}";
}

function valueAt(writer: Writer, container: object, key: string | number): unknown {
  const property = Object.getOwnPropertyDescriptor(container, key);
  if (property !== undefined && "value" in property) return property.value;
  writer.path.push(key);
  throw wrong(writer, undefined, "a value and not a getter");
}

function enter(writer: Writer, key: string | number, value: unknown): void {
  writer.path.push(key);
  write(writer, value);
  writer.path.pop();
}

/** Checked while the text grows: a value that is too large is not written to its end. */
function checkBytes(writer: Writer, bytes: number): void {
  const { owner, path, maxBytes } = writer;
  if (bytes <= maxBytes) return;
  writer.tooLarge = true;
  const expected = `at most ${maxBytes} bytes as JSON`;
  const hint = `it has ${bytes} or more; keep large things elsewhere and pass a reference`;
  writer.refusal = `expected ${expected}, and ${hint}`;
  throw new OptionsError(owner, String(path[0]), undefined, expected, hint);
}

function wrong(writer: Writer, value: unknown, expected: string, hint?: string): OptionsError {
  const place = placeOf(writer.path);
  writer.refusal = `expected ${place} to be ${expected}`;
  return new OptionsError(writer.owner, place, value, expected, hint);
}

/** As in `data.users[0].name`. */
function placeOf([first = "", ...rest]: readonly (string | number)[]): string {
  const where = rest.slice(0, 12).map((key) => (typeof key === "number" ? `[${key}]` : `.${key.slice(0, 40)}`));
  return `${first}${where.join("")}${rest.length > 12 ? "…" : ""}`;
}
