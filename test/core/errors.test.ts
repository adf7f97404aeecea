import { describe, expect, it } from "vitest";
import { errorFrom, recordError } from "../../src/core/error-record.ts";
import { JobTimeoutError, PermanentJobError, RetryableJobError } from "../../src/index.ts";

describe("what is kept of an error", () => {
  it("the record of an error is bounded", () => {
    const error = new Error("x".repeat(100_000));
    error.stack = "y".repeat(100_000);
    const record = recordError(error);
    expect(record.message).toHaveLength(2_000);
    expect(record.stack).toHaveLength(8_000);
  });

  it.each([
    ["nothing", undefined],
    ["text", "just text"],
    ["an object", { a: 1 }],
    ["null", null],
    [
      "a cycle",
      (() => {
        const o: { self?: unknown } = {};
        o.self = o;
        return o;
      })(),
    ],
    [
      "an error whose message throws",
      Object.defineProperty(new Error("x"), "message", {
        get() {
          throw new Error("no");
        },
      }),
    ],
    ["a message that is no text", { message: { a: 1 } }],
    ["broken text", new Error("a\u0000b\ud800")],
  ])("a record can be made of whatever is thrown: %s", (_, thrown) => {
    const record = recordError(thrown);
    expect(typeof record.message).toBe("string");
    expect(record.message.isWellFormed()).toBe(true);
    expect(record.message).not.toContain("\u0000");
  });

  it("the record of a thrown value that is no error has the value as its message", () => {
    const messages = ["text", 5n, Number.NaN, null, undefined, { a: 1 }].map((thrown) => recordError(thrown).message);
    expect(messages).toEqual(["text", "5", "NaN", "null", "undefined", '{"a":1}']);
  });

  it("the record of an error has no half of a secret where it was cut", () => {
    const record = recordError(
      new Error(
        `${"postgres://a:bbbbbbbbbbbbbb@h ".repeat(130)}${"x".repeat(80)} postgres://u:hunter2${"y".repeat(60)}@h`,
      ),
    );
    expect(record.message).not.toContain("hunter2");
    expect(recordError(new Error("word ".repeat(10_000))).message.length).toBeGreaterThan(1_900);
    expect(recordError(new Error("x".repeat(1_000_000))).message.length).toBe(2_000);
  });

  it("the record of an error comes back as an error of its class", () => {
    for (const error of [new PermanentJobError("p"), new RetryableJobError("r"), new JobTimeoutError("t")]) {
      const back = errorFrom(recordError(error));
      expect(back).toBeInstanceOf(error.constructor);
      expect(back.message).toBe(error.message);
    }
    const own = errorFrom(recordError(new TypeError("mine")));
    expect(own.cause).toMatchObject({ name: "TypeError", message: "mine" });
  });
});
