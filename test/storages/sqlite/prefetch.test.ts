import { describe, expect, onTestFinished, test } from "vitest";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob, rule } from "./support.ts";

const ids = (claim: { readonly jobs: readonly { readonly id: string }[] }) => claim.jobs.map(({ id }) => id);
const five = ["a", "b", "c", "d", "e"];

function open(): SqliteStorage {
  const storage = new SqliteStorage(":memory:", { clock: new FakeClock() });
  onTestFinished(() => storage.close());
  return storage;
}

describe("a claim prefetches jobs that no limit applies to", () => {
  test("jobs are prefetched behind those that start at once, in the same order", async () => {
    const storage = open();
    await storage.add(five.map((id) => newJob({ id })));
    const claim = await storage.claim(claimOf({ max: 1, prefetch: 3 }));
    expect(ids(claim)).toEqual(["a", "b", "c", "d"]);
    expect(claim.more).toBe(true);
    const tokens = claim.jobs.map(({ token }) => token);
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    const rest = await storage.claim(claimOf({ max: 0, prefetch: 3 }));
    expect([ids(rest), rest.more, rest.nextInMs]).toEqual([["e"], false, null]);
  });

  test("jobs of several types and priorities are prefetched", async () => {
    const storage = open();
    await storage.add(five.map((id, i) => newJob({ id, type: i % 2 === 0 ? "t" : "u", priority: i })));
    expect(ids(await storage.claim(claimOf({ max: 1, prefetch: 2 })))).toEqual(["e", "d", "c"]);
    expect(ids(await storage.claim(claimOf({ max: 1, prefetch: 2, types: ["t", "u"] })))).toEqual(["b", "a"]);
  });

  test("some jobs of very many priorities are prefetched, and the claim says that there are more", async () => {
    const storage = open();
    const many = Array.from({ length: 12 }, (_, i) => `p${i}`);
    await storage.add(many.map((id, i) => newJob({ id, priority: 12 - i })));
    const found: string[] = [];
    for (let more = true; more;) {
      const claim = await storage.claim(claimOf({ max: 1, prefetch: 20 }));
      found.push(...ids(claim));
      more = claim.more;
    }
    expect(found).toEqual(many);
  });

  test("more jobs are prefetched than are read at once", async () => {
    const storage = open();
    const many = Array.from({ length: 100 }, (_, i) => `j${i}`);
    await storage.add(many.map((id) => newJob({ id })));
    const claim = await storage.claim(claimOf({ max: 1, prefetch: 98 }));
    expect([ids(claim), claim.more]).toEqual([many.slice(0, 99), true]);
  });

  test("jobs are prefetched up to the first that was tried before or may be tried only once", async () => {
    const storage = open();
    await storage.add(five.map((id, i) => newJob({ id, maxAttempts: i === 2 ? 1 : 3 })));
    const first = await storage.claim(claimOf({ max: 1, prefetch: 9 }));
    expect([ids(first), first.more]).toEqual([["a", "b"], true]);
    const none = await storage.claim(claimOf({ max: 0, prefetch: 9 }));
    expect([ids(none), none.more, none.nextInMs]).toEqual([[], true, 0]);
    expect((await storage.find(["c"]))[0]).toMatchObject({ state: "waiting", attempt: 0, token: 0 });
    expect(ids(await storage.claim(claimOf({ max: 1, prefetch: 9 })))).toEqual(["c", "d", "e"]);
    // A job that was given back has its attempt again; one that is tried again has not.
    const [a, b] = first.jobs;
    const error = { name: "Error", message: "no" };
    await storage.settle([
      { id: b!.id, token: b!.token, to: "back", inMs: 0, held: false, hold: null, unstarted: true, error: null },
    ]);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 9 })))).toEqual(["b"]);
    await storage.settle([{ id: a!.id, token: a!.token, to: "retry", inMs: 0, error }]);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 9 })))).toEqual([]);
    expect(ids(await storage.claim(claimOf({ max: 1 })))).toEqual(["a"]);
  });

  test("no job is prefetched under a limit, nor while the queue or the type is paused", async () => {
    const storage = open();
    await storage.add(five.map((id) => newJob({ id })));
    const limits = [{ key: "own", max: 100, windowMs: 1_000 }];
    expect(ids(await storage.claim(claimOf({ max: 1, prefetch: 3, limits })))).toEqual(["a"]);
    await storage.limits.define([rule("some", { max: 100, windowMs: 1_000 }, { types: ["t"] })]);
    expect(ids(await storage.claim(claimOf({ max: 1, prefetch: 3 })))).toEqual(["b"]);
    await storage.add([newJob({ id: "f", type: "u" })]);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 3, types: ["u"] })))).toEqual(["f"]);
    await storage.limits.remove("some");
    await storage.setPaused("q", "t", true);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 3 })))).toEqual([]);
    await storage.setPaused("q", "t", false);
    await storage.setPaused("q", null, true);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 3 })))).toEqual([]);
    await storage.setPaused("q", null, false);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 3 })))).toEqual(["c", "d", "e"]);
  });

  test("no job is prefetched while jobs of groups wait: they take turns when they start", async () => {
    const storage = open();
    await storage.add(five.map((id) => newJob({ id, group: "g" })));
    expect(ids(await storage.claim(claimOf({ max: 1, prefetch: 3 })))).toEqual(["a"]);
    await storage.add([newJob({ id: "f" })]);
    expect(ids(await storage.claim(claimOf({ max: 0, prefetch: 3 })))).toEqual([]);
  });
});
