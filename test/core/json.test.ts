import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, fromJson, keepJson, toJson } from "../../src/core/json.ts";
import { OptionsError } from "../../src/index.ts";

const write = (value: unknown) => toJson("add", "data", value, 2 ** 20);

describe("payloads", () => {
  it("values come back exactly, or are refused", () => {
    fc.assert(
      fc.property(
        fc.anything({ withBigInt: true, withDate: true, withSparseArray: true, withNullPrototype: true }),
        (value) => {
          let text: string;
          try {
            text = write(value);
          } catch (error) {
            expect(error).toBeInstanceOf(OptionsError);
            return;
          }
          // JSON knows no prototype: an object without one comes back with one.
          expect(fromJson(text)).toEqual(value);
          expect(JSON.stringify(fromJson(text))).toBe(text);
        },
      ),
      { numRuns: 2_000 },
    );
  });

  it("values that JSON can hold are never refused", () => {
    fc.assert(
      fc.property(fc.jsonValue({ noUnicodeString: false, maxDepth: 5 }), (value) => {
        const text = JSON.stringify(value);
        // Only what JSON itself would change.
        if (Object.is(value, -0) || text.includes("\\u0000") || /\\ud[89a-f]/.test(text)) return;
        if (JSON.stringify(value, (_, v: unknown) => (Object.is(v, -0) ? "-0" : v)) !== text) return;
        expect(fromJson(write(value))).toEqual(value);
      }),
    );
  });

  const cycle: Record<string, unknown> = {};
  cycle["self"] = { cycle };
  const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);
  const getter = Object.defineProperty({}, "x", { enumerable: true, get: () => expect.unreachable("it was run") });

  it.each([
    ["undefined", undefined, /`data`.*use null/],
    ["undefined in an array", { a: [1, undefined] }, /`data\.a\[1\]`.*use null/],
    ["NaN", { n: Number.NaN }, /`data\.n`.*finite/],
    ["Infinity", [Number.POSITIVE_INFINITY], /`data\[0\]`/],
    ["-0", -0, /no -0/],
    ["a BigInt", 2n ** 60n, /pass it as text/],
    ["a Date", { at: new Date() }, /`data\.at`.*date as text/],
    ["a Map", new Map(), /plain object/],
    ["an object of a class", new URL("https://a.b"), /plain object/],
    ["a function", { f: () => 1 }, /`data\.f`/],
    ["toJSON", { toJSON: () => 1 }, /`data\.toJSON`/],
    ["a symbol", { s: Symbol("s") }, /`data\.s`/],
    ["a symbol as a key", { [Symbol("s")]: 1 }, /free of symbols/],
    ["a hidden property", Object.defineProperty({}, "x", { value: 1 }), /hidden/],
    ["a getter", getter, /not a getter/],
    ["an array with a hole", [1, , 3], /holes/], // oxlint-disable-line no-sparse-arrays
    ["an array with a name", Object.assign([1], { name: 1 }), /holes or names/],
    ["an array with a symbol", Object.assign([1], { [Symbol("s")]: 1 }), /holes or names/],
    ["an array with a hidden name", Object.defineProperty([1], "x", { value: 1 }), /holes or names/],
    ["a lone surrogate", { text: "\ud83d" }, /lone surrogates/],
    ["a lone surrogate in a key", { "\udc00": 1 }, /lone surrogates/],
    ["U+0000", "a\u0000b", /U\+0000/],
    ["a cycle", cycle, /cycles/],
    ["10,000 levels", deep(5_000), /levels deep/],
    ["5 MB", { text: "x".repeat(5 * 2 ** 20) }, /at most 1048576 bytes/],
    ["many bytes in few characters", { text: "€".repeat(400_000) }, /at most 1048576 bytes/],
  ])("are refused with their place: %s", (_, value, message) => {
    expect(() => write(value)).toThrow(message);
    expect(() => write(value)).toThrow(OptionsError);
  });

  it("members that are undefined are left out, as JSON does", () => {
    expect(write({ a: undefined, b: [{ c: undefined, d: 1 }], e: undefined })).toBe('{"b":[{"d":1}]}');
    expect(write({ a: undefined })).toBe("{}");
  });

  it("values are read once, so a second answer of a proxy does not matter", () => {
    const changing = new Proxy({ a: 1 }, { get: () => Number.NaN });
    expect(write(changing)).toBe('{"a":1}');
  });

  it("values that grow by sharing are refused before they are written out", () => {
    let shared: unknown = ["x".repeat(100)];
    for (let i = 0; i < 40; i++) shared = [shared, shared];
    expect(() => write(shared)).toThrow(/at most 1048576 bytes/);
  });

  it("__proto__ is kept as a name like any other", () => {
    const value = fromJson('{"__proto__":{"polluted":true},"constructor":{"prototype":1}}');
    const back = fromJson(write(value)) as object;
    expect(Object.keys(back)).toEqual(["__proto__", "constructor"]);
    expect(Object.keys(fromJson(canonicalJson(write(value))) as object)).toEqual(["__proto__", "constructor"]);
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it("a value may hold the same object twice, but not inside itself", () => {
    const shared = { a: 1 };
    expect(write({ x: shared, y: [shared] })).toBe('{"x":{"a":1},"y":[{"a":1}]}');
  });
});

describe("results", () => {
  const keep = (value: unknown) => keepJson("result", value, 2 ** 20);
  const fail = () => {
    throw new Error("not to be looked at");
  };
  const throwing = new Proxy({}, { ownKeys: fail });
  const cycle: Record<string, unknown> = {};
  cycle["self"] = cycle;
  let shared: unknown = [new Date(0)];
  for (let i = 0; i < 40; i++) shared = [shared, shared];

  it("results that can be kept exactly are kept without a warning", () => {
    expect(keep({ a: [1, "x", null] })).toEqual({ text: '{"a":[1,"x",null]}', warning: undefined });
  });

  it.each<readonly [string, unknown, unknown, RegExp]>([
    ["an undefined member", { id: 1, thread: undefined }, { id: 1 }, /^result\.thread is undefined and was left out$/],
    ["undefined in an array", [1, undefined], [1, null], /result\[1\]/],
    ["a date", { at: new Date(0) }, { at: "1970-01-01T00:00:00.000Z" }, /as JSON\.stringify writes it.*result\.at/],
    ["NaN", { n: Number.NaN }, { n: null }, /result\.n/],
    ["-0", -0, 0, /result/],
    ["a Map", { m: new Map([[1, 2]]) }, { m: {} }, /result\.m/],
    ["toJSON", { toJSON: () => ({ kept: true }) }, { kept: true }, /result\.toJSON/],
    ["an object of a class", new URL("http://a.test/"), "http://a.test/", /result/],
    ["a hole", [1, , 3], [1, null, 3], /result/], // oxlint-disable-line no-sparse-arrays
    ["U+0000", { "a\u0000": "b\u0000\\u0000" }, { a: "b\\u0000" }, /result/],
    ["lone surrogates", ["\ud83d", "\udc00x", "\\ud83d", "👍"], ["\ufffd", "\ufffdx", "\\ud83d", "👍"], /result/],
  ])("that cannot be kept exactly are kept as JSON writes them: %s", (_, value, kept, warning) => {
    const { text, warning: said } = keep(value);
    expect(fromJson(text!)).toEqual(kept);
    expect(said).toMatch(warning);
    // What every storage takes.
    expect(write(fromJson(text!))).toBe(text);
  });

  it.each<readonly [string, unknown, RegExp]>([
    ["a BigInt", 10n, /could not be kept.*result/],
    ["a BigInt inside", { id: 10n }, /result\.id/],
    ["a cycle", cycle, /cycles/],
    ["a function", () => 1, /result/],
    ["a symbol", Symbol("s"), /result/],
    ["a getter that throws", Object.defineProperty({}, "x", { enumerable: true, get: fail }), /result\.x/],
    ["toJSON that throws", { toJSON: fail }, /result\.toJSON/],
    ["a proxy that throws", throwing, /cannot be read \(not to be looked at\)/],
    ["more than fits", "x".repeat(2 ** 20), /at most 1048576 bytes/],
    ["more than fits once it is written out", shared, /result/],
  ])("that cannot be written are left out, and nothing throws: %s", (_, value, warning) => {
    const kept = keep(value);
    expect(kept.text).toBeNull();
    expect(kept.warning).toMatch(warning);
  });

  it("results of any kind are kept as JSON writes them, or left out", () => {
    const anything = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withSparseArray: true,
    });
    fc.assert(
      fc.property(anything, (value) => {
        const { text, warning } = keep(value);
        if (text === null) expect(warning).toBeDefined();
        else expect(fromJson(text)).toEqual(fromJson(JSON.stringify(value)));
      }),
      { numRuns: 2_000 },
    );
  });
});
