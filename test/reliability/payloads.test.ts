import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type JobEvents, OptionsError, Queue, Worker } from "../../src/index.ts";
import { STORAGES } from "./support.ts";

const deep = (levels: number): unknown => {
  let value: unknown = 1;
  for (let i = 0; i < levels; i++) value = [value];
  return value;
};
const cyclic: { self?: unknown } = {};
cyclic.self = cyclic;
const fail = (): never => {
  throw new Error("not to be looked at");
};

/** Would come back as something else, or not at all. */
const REFUSED: readonly (readonly [string, unknown])[] = [
  ["10,000 levels", deep(10_000)],
  ["-0", { n: -0 }],
  ["NaN", [Number.NaN]],
  ["Infinity", [Number.POSITIVE_INFINITY]],
  ["a bigint", { n: 1n }],
  ["a lone surrogate", { text: "\uD800" }],
  ["a lone surrogate in a key", { "\uDC00": 1 }],
  ["U+0000", { text: "a\u0000b" }],
  ["5 MB", { text: "x".repeat(5 * 2 ** 20) }],
  ["a cycle", cyclic],
  ["toJSON", { toJSON: () => "something else" }],
  ["a date", new Date()],
  [
    "a getter",
    {
      get a() {
        throw new Error("ran");
      },
    },
  ],
  ["undefined in an array", { a: [undefined] }],
  ["a function", () => {}],
  ["a symbol key", { [Symbol("s")]: 1 }],
  ["a map", new Map([["a", 1]])],
  ["a hole", Object.assign([1], { 2: 3 })],
  ["an object of a class", new URL("http://a.test")],
];

/** Nasty, and exactly representable. */
const KEPT: readonly (readonly [string, unknown])[] = [
  ["__proto__ as data", JSON.parse('{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}')],
  ["2^53 + 1 as near as a number comes", { n: 2 ** 53 + 1 }],
  ["quotes and SQL", { text: "'; DROP TABLE sluice_jobs; --\"`$$%I\\" }],
  ["emoji and right-to-left", { text: "👩‍👩‍👧‍👦 \u202Eabc" }],
  ["line separators", { text: "\u2028\u2029\r\n" }],
  ["nothing", null],
];

describe.each(STORAGES)("payloads ($name)", ({ open, runs }) => {
  it.each(REFUSED)("refuses %s with an OptionsError, and adds nothing", async (_, data) => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    await expect(queue.add("work", data)).rejects.toBeInstanceOf(OptionsError);
    await expect(
      queue.addBulk([
        { type: "work", data: 1 },
        { type: "work", data },
      ]),
    ).rejects.toBeInstanceOf(OptionsError);
    expect(await storage.overview()).toEqual([]);
  });

  it.each(KEPT)("keeps %s as it is, to the handler and back", async (_, data) => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    const job = await queue.add("work", data);
    let seen: unknown;
    await using _worker = new Worker(
      "q",
      ({ data: given }) => {
        seen = given;
        return given;
      },
      { storage },
    );
    expect(await job.result()).toEqual(data);
    expect(JSON.stringify(seen)).toBe(JSON.stringify(data));
    expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
  });

  it("leaves out members of data that are undefined, and takes data with and without them for the same", async () => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    const options = { idempotencyKey: "once" };
    const job = await queue.add("work", { id: 1, thread: undefined }, options);
    expect(job.data).toStrictEqual({ id: 1 });
    const again = await queue.add("work", { id: 1 }, options);
    expect([again.id, again.created]).toEqual([job.id, false]);
    expect((await storage.find([job.id]))[0]?.data).toBe('{"id":1}');
  });

  it.each<readonly [string, () => unknown, unknown]>([
    ["a member that is undefined", () => ({ id: 7, thread: undefined }), { id: 7 }],
    ["a date", () => ({ at: new Date(0) }), { at: "1970-01-01T00:00:00.000Z" }],
    ["U+0000 and half a character", () => ["a\u0000b", "\uD800"], ["ab", "\ufffd"]],
    ["a BigInt", () => 10n, undefined],
    ["a cycle", () => cyclic, undefined],
    ["5 MB", () => "x".repeat(5 * 2 ** 20), undefined],
    ["a proxy that throws", () => new Proxy({}, { getPrototypeOf: () => fail(), ownKeys: () => fail() }), undefined],
  ])("completes a job that returned %s, once, and says so", async (_, value, kept) => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    const warnings: JobEvents["warning"][] = [];
    const warned = Promise.withResolvers<void>();
    queue.on("warning", (event) => {
      warnings.push(event);
      warned.resolve();
    });
    const job = await queue.add("work", null, { maxAttempts: 1 });
    let calls = 0;
    const handler = () => {
      calls += 1;
      return value();
    };
    await using _worker = new Worker("q", handler, { storage });
    expect(await job.result()).toEqual(kept);
    await warned.promise;
    expect(calls).toBe(1);
    expect(await job.info()).toMatchObject({ state: "completed", attempt: 1 });
    expect(warnings).toEqual([
      {
        event: "warning",
        queue: "q",
        id: job.id,
        type: "work",
        attempt: 1,
        about: "result",
        message: expect.any(String),
      },
    ]);
    expect((await job.history()).log.map(({ text }) => text)).toEqual([`warning: ${warnings[0]!.message}`]);
  });

  it("keeps whatever JSON can hold", async () => {
    const { storage } = await open();
    const queue = new Queue("q", { storage });
    const any = fc.jsonValue({ noUnicodeString: false }).filter((value) => !hasOdd(value));
    await fc.assert(
      fc.asyncProperty(any, async (data) => {
        const job = await queue.add("work", data);
        const [record] = await storage.find([job.id]);
        expect(JSON.parse(record!.data)).toEqual(data);
      }),
      { numRuns: Math.min(runs, 1_000) },
    );
  });
});

/** What `jsonValue` makes and a payload may not have. */
function hasOdd(value: unknown): boolean {
  if (typeof value === "number") return Object.is(value, -0);
  if (typeof value === "string") return value.includes("\u0000") || !value.isWellFormed();
  if (typeof value !== "object" || value === null) return false;
  return Object.entries(value).some(([key, inside]) => hasOdd(key) || hasOdd(inside));
}
