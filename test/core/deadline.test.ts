import { stat } from "node:fs/promises";
import { expect, it } from "vitest";
import { systemClock } from "../../src/core/clock.ts";
import { inTime } from "../../src/core/deadline.ts";
import { StorageError } from "../../src/core/errors.ts";
import { FakeClock } from "../../src/testing/index.ts";

/** Nothing of this thread runs meanwhile. */
const block = (ms: number) => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);

it("an answer that came while the process was blocked is in time", async () => {
  const answer = inTime(systemClock, () => stat("."), { withinMs: 5 });
  block(300);
  expect((await answer).isDirectory()).toBe(true);
});

it("a missing answer is an error when the deadline has passed, and not before", async () => {
  const clock = new FakeClock();
  let error: unknown;
  inTime(clock, () => new Promise(() => {}), { withinMs: 400 }).catch((reason: unknown) => (error = reason));
  await clock.advance(399);
  expect(error).toBeUndefined();
  await clock.advance(1);
  expect(error).toBeInstanceOf(StorageError);
  expect(String(error)).toContain("the storage has not answered for 0.4 s");
  expect(clock.timers).toBe(0);
});

it("a call that is answered at the last moment leaves no timer", async () => {
  const clock = new FakeClock();
  const { promise, resolve } = Promise.withResolvers<string>();
  const asked = inTime(clock, () => promise, { withinMs: 400 });
  clock.after(400, () => resolve("here"));
  await clock.advance(400);
  expect(await asked).toBe("here");
  expect(clock.timers).toBe(0);
});
