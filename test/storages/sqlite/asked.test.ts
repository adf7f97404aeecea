import { describe, expect, test } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";

const WINDOW_MS = 200;

/** A clock that moves on whenever it is read: a process that is held up between any two of its steps. */
function heldUp(byMs: number) {
  let t = 0;
  const read = () => (t += byMs);
  return { now: read, wall: () => 1_893_456_000_000 + read(), after: () => () => {} };
}

describe("a start in a process that is held up between any two of its steps", () => {
  test.each([0.5, 1, 3, 7])("counts from its call, and not before (%d ms each)", async (byMs) => {
    const clock = heldUp(byMs);
    const { rates } = new SqliteStorage(":memory:", { clock });
    const ask = { maxExecutions: 1, windowMs: WINDOW_MS, grantTtl: 10_000 };
    let latest = Number.NEGATIVE_INFINITY;
    for (let calls = 0; calls < 5; ) {
      const askedAt = clock.now();
      const { granted, token } = await rates.tryRecordExecution("k", ask);
      if (!granted) continue;
      const calledAt = clock.now();
      expect(calledAt - latest).toBeGreaterThanOrEqual(WINDOW_MS);
      await rates.confirmExecution("k", [{ token: token!, calledInMs: calledAt - askedAt }]);
      latest = calledAt;
      calls += 1;
    }
  });
});
