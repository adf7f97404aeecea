import { describe, expect, it } from "vitest";
import { errorFrom, recordError, scrub } from "../../src/core/error-record.ts";
import { JobTimeoutError, PermanentJobError, RetryableJobError } from "../../src/index.ts";

describe("what is kept of an error", () => {
  it("is bounded", () => {
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
  ])("can be made of whatever is thrown: %s", (_, thrown) => {
    const record = recordError(thrown);
    expect(typeof record.message).toBe("string");
    expect(record.message.isWellFormed()).toBe(true);
    expect(record.message).not.toContain("\u0000");
  });

  it.each([
    ["postgres://me:s3cret@host/db", /s3cret|me:/],
    ["mysql+pymysql://root:p%40ss@10.0.0.1:3306", /p%40ss/],
    ["Authorization: Bearer eyJhbGciOi.J9", /eyJ/],
    ['{"password":"hunter2","api_key": "sk-12345"}', /hunter2|sk-12345/],
    ["https://api.example.com/?token=abc123&x=1", /abc123/],
    ["DB_PASSWORD=hunter2 client_secret=abc123 AWS_SECRET_ACCESS_KEY=wJalr", /hunter2|abc123|wJalr/],
    ["postgres://u:pa/ss@h/db", /pa\/ss/],
    ["postgres://u:p@ss@h/db", /p@ss|ss@h/],
    ['password: "two words"', /two|words/],
    ["Authorization: token abcdef123", /abcdef123/],
  ])("has no secrets: %s", (text, secret) => {
    expect(scrub(text)).not.toMatch(secret);
    expect(scrub(text)).toContain("***");
  });

  it("leaves plain text alone, and takes no time over long ones", () => {
    const text = "request to https://api.example.com/users failed: 500";
    expect(scrub(text)).toBe(text);
    for (const part of ["a:", "://", "password=", "bearer ", "x"]) {
      const started = performance.now();
      scrub(part.repeat(16_000));
      expect(performance.now() - started).toBeLessThan(1_000);
    }
  });

  it("comes back as an error of its kind", () => {
    for (const error of [new PermanentJobError("p"), new RetryableJobError("r"), new JobTimeoutError("t")]) {
      const back = errorFrom(recordError(error));
      expect(back).toBeInstanceOf(error.constructor);
      expect(back.message).toBe(error.message);
    }
    const own = errorFrom(recordError(new TypeError("mine")));
    expect(own.cause).toMatchObject({ name: "TypeError", message: "mine" });
  });
});
