import { describe, expect, test } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";

const WINDOW_MS = 200;
const HELD_UP_MS = 100;

/** A clock that is moved by hand, in a process that is held up once: between the readings `at` and `at` + 1 of its clocks. */
function heldUp(at: number) {
  const clock = { t: 0, readings: 0 };
  const read = () => {
    const { t } = clock;
    clock.readings += 1;
    if (clock.readings === at) clock.t += HELD_UP_MS;
    return t;
  };
  return { clock, now: read, wall: () => 1_893_456_000_000 + read(), after: () => () => {} };
}

describe("a start", () => {
  test("a start counts from its call, and not before, wherever in its grant the process was held up", async () => {
    let readings = 0;
    for (let at = 1; at <= Math.max(30, readings); at++) {
      const time = heldUp(at);
      const { rates } = new SqliteStorage(":memory:", { clock: time });
      const ask = { maxExecutions: 1, windowMs: WINDOW_MS, grantTtl: 10_000 };
      const askedAt = time.clock.t;
      const { token } = await rates.tryRecordExecution("k", ask);
      const calledAt = time.clock.t;
      readings = time.clock.readings;
      await rates.confirmExecution("k", [{ token: token!, calledInMs: calledAt - askedAt }]);
      time.clock.readings = at + 1;
      time.clock.t = calledAt + WINDOW_MS - 1;
      expect((await rates.tryRecordExecution("k", ask)).granted, `held up after reading ${at}`).toBe(false);
      time.clock.t += HELD_UP_MS + 1;
      expect((await rates.tryRecordExecution("k", ask)).granted).toBe(true);
    }
  });
});
