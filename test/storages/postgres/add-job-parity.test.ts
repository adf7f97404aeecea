import { describe, expect, test } from "vitest";
import { Queue } from "../../../src/index.ts";
import type { JobStorage } from "../../../src/storage/job-storage.ts";
import { emptyStorages, type EmptyStorage } from "./support.ts";

/** Payloads whose canonical text is easy to get wrong: the order of keys, numbers, and characters that are escaped. */
const PAYLOADS = [
  { 10: "a", 9: "b", "9a": "c", a: "d", "": "e", "-1": "f", "01": "g" },
  { "\u{1f600}": 1, "\uffff": 2, "\ue000": 3, z: 4, "\u{10ffff}": 5, "\ud7ff": 6 },
  { "a\u{1f600}": 1, "a\uffff": 2, a: 3 },
  {
    b: [
      { 2: [], 1: {} },
      { y: null, x: true },
    ],
    a: false,
  },
  JSON.parse('{"__proto__": {"2": 1, "1": 2}, "constructor": 1}') as object,
  [
    1e21,
    1e20,
    123_456_789_012_345_680_000,
    1e-6,
    1e-7,
    -1e-7,
    0.1 + 0.2,
    5e-324,
    1.7976931348623157e308,
    2 ** 53,
    -0.001,
  ],
  ["\u0001\b\t\n\f\r\u001f\u007f\u0080\u2028\ufeff \"\\/<'", "é\u{1f600}"],
  "text",
  0,
  null,
  [],
  {},
];

const names = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`n${i}`, 1]));
const keys = (n: number) => Object.fromEntries(Array.from({ length: n }, (_, i) => [`n${i}`, "v"]));
const deep = (levels: number): unknown => (levels === 1 ? [] : [deep(levels - 1)]);
const astral = (n: number) => "\u{1f600}".repeat(n);

/** Options as JSON says them, at the bounds and beyond. */
const OPTIONS: readonly (readonly [option: string, values: readonly unknown[]])[] = [
  ["priority", [2 ** 31 - 1, 2 ** 31, -(2 ** 31) + 1, -(2 ** 31), 0.5, "1", null, true]],
  ["maxAttempts", [1, 2 ** 31 - 1, 2 ** 31, 0, -1, 1.5, null]],
  [
    "delay",
    [0, 1e15, 1e15 + 1, 1e300, -1, 0.5, "5s", "1.5m", "1e3s", "１s", " 5s", "5S", "5", "", "9".repeat(40), null],
  ],
  ["timeout", [0, 0.5, 1e15, "0s", "1d"]],
  ["deadline", [0, 1, "1h", true, "soon"]],
  ["keepFor", [0, 1e15, 2e15]],
  ["idempotencyTtl", [0, 1, "1h"]],
  ["group", ["x".repeat(255), "x".repeat(256), astral(127), astral(128), "", 7, null]],
  ["idempotencyKey", ["x".repeat(512), "x".repeat(513), astral(256), astral(257), ""]],
  ["weights", [{}, { a: 4_294_967_295 }, { a: 4_294_967_296 }, { a: 0 }, { a: 1.5 }, names(32), names(33), { "": 1 }]],
  ["weights", [{ [astral(127)]: 1 }, { [astral(128)]: 1 }, [], null]],
  [
    "keys",
    [{}, { b: "2", a: "1", 10: "x", 9: "y" }, { "\u{1f600}": "1", "\uffff": "2" }, { a: "" }, { a: 1 }, { a: null }],
  ],
  ["keys", [{ group: "g" }, keys(16), keys(17), { "": "a" }, [], null, "a", { __proto: "a" }]],
  [
    "keys",
    [
      { a: astral(127) },
      { a: astral(128) },
      { a: "x".repeat(240), b: "x".repeat(255) },
      { a: "x".repeat(255), bc: astral(127) },
    ],
  ],
  [
    "backoff",
    [
      { kind: "custom", name: astral(127) },
      { kind: "custom", name: astral(128) },
      { kind: "custom", name: "" },
    ],
  ],
  [
    "backoff",
    [{ kind: "custom" }, { kind: "other" }, { kind: "fixed", delay: 1e15 }, { kind: "fixed", delay: 2e15 }, {}],
  ],
  [
    "backoff",
    [
      { kind: "exponential", initial: 5, max: 4 },
      { kind: "exponential", initial: 0 },
      { kind: "fixed", x: 1 },
    ],
  ],
  ["onDuplicate", ["return", "other", null]],
  ["unknown", [1]],
];

interface Both {
  readonly queue: (name: string, type: string, data: unknown, options?: object) => Promise<string>;
  readonly sql: (name: string, type: string, data: unknown, options?: object) => Promise<string>;
  readonly storage: JobStorage;
}

function both({ pool, storage, clock }: EmptyStorage): Both {
  return {
    storage,
    queue: async (name, type, data, options = {}) =>
      (await new Queue(name, { storage, clock }).add(type, data, options)).id,
    sql: async (name, type, data, options = {}) => {
      const values = [name, type, JSON.stringify(data), JSON.stringify(options)];
      const { rows } = await pool.query<{ id: string }>("SELECT sluice.add_job($1, $2, $3, $4) AS id", values);
      return rows[0]!.id;
    },
  };
}

/** The id, or undefined where the options were refused. */
async function taken(adding: Promise<string>): Promise<string | undefined> {
  return adding.catch((error: { readonly code?: string }) => {
    if (error.code === "SLUICE_OPTIONS" || error.code === "22023") return undefined;
    throw error;
  });
}

describe("queue.add and the function add_job", () => {
  const open = emptyStorages();

  test("a payload of one is recognised by the other", async () => {
    const scene = await open();
    await scene.storage.setup();
    const { queue, sql } = both(scene);
    for (const [i, data] of PAYLOADS.entries()) {
      const id = await queue("q", "t", data, { idempotencyKey: `queue ${i}` });
      expect(await sql("q", "t", data, { idempotencyKey: `queue ${i}` }), JSON.stringify(data)).toBe(id);
      const other = await sql("q", "t", data, { idempotencyKey: `sql ${i}` });
      expect(await queue("q", "t", data, { idempotencyKey: `sql ${i}` }), JSON.stringify(data)).toBe(other);
    }
  });

  test("a payload of one is recognised by the other, whatever the session sets for numbers", async () => {
    const { pool, storage, clock } = await open();
    const { id } = await new Queue("q", { storage, clock }).add("t", 0.1 + 0.2, { idempotencyKey: "k" });
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      await client.query("SET LOCAL extra_float_digits = -15");
      const values = [JSON.stringify(0.1 + 0.2), '{"idempotencyKey": "k"}'];
      const { rows } = await client.query("SELECT sluice.add_job('q', 't', $1, $2) AS id", values);
      expect(rows).toEqual([{ id }]);
    } finally {
      await client.query("ROLLBACK");
      client.release();
    }
  });

  test("both accept and refuse the same options, and store the same of them", async () => {
    const scene = await open();
    await scene.storage.setup();
    const { queue, sql, storage } = both(scene);
    const unlike: unknown[] = [];
    for (const [option, values] of OPTIONS) {
      for (const value of values) {
        const said = JSON.stringify({ [option]: value }).slice(0, 100);
        const here = await taken(queue("queue", "t", null, { [option]: value }));
        const there = await taken(sql("sql", "t", null, { [option]: value }));
        if ((here === undefined) !== (there === undefined)) unlike.push([said, here, there]);
        if (here === undefined || there === undefined) continue;
        const [one, other] = await storage.find([here, there]);
        expect({ ...other, id: "", queue: "" }, said).toEqual({ ...one, id: "", queue: "" });
      }
    }
    expect(unlike).toEqual([]);
  });

  test("both accept and refuse the same names and data", async () => {
    const scene = await open();
    await scene.storage.setup();
    const { queue, sql } = both(scene);
    const ones = (n: number) => Array.from({ length: n }, () => 1);
    const cases: readonly (readonly [name: string, type: string, data: unknown])[] = [
      ["x".repeat(200), "t", 1],
      ["x".repeat(201), "t", 1],
      [astral(100), "t", 1],
      [astral(101), "t", 1],
      ["q", "x".repeat(255), 1],
      ["q", "x".repeat(256), 1],
      ["q", astral(127), 1],
      ["q", astral(128), 1],
      ["q", "t", deep(100)],
      ["q", "t", deep(101)],
      // With commas and brackets: as many bytes as there may be, and more.
      ["q", "t", ones(2 ** 19 - 1)],
      ["q", "t", ones(2 ** 19)],
    ];
    const unlike: unknown[] = [];
    for (const [i, [name, type, data]] of cases.entries()) {
      const here = await taken(queue(name, type, data));
      const there = await taken(sql(name, type, data));
      if ((here === undefined) !== (there === undefined)) unlike.push([i, here, there]);
    }
    expect(unlike).toEqual([]);
    const wrong = { code: "22023" };
    await expect(scene.pool.query("SELECT sluice.add_job('q', 't', '[1e400]')")).rejects.toMatchObject(wrong);
    await expect(scene.pool.query(`SELECT sluice.add_job('q', 't', '1', '{"delay": 1e400}')`)).rejects.toMatchObject(
      wrong,
    );
  });
});
