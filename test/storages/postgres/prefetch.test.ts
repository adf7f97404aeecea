import { describe, expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

const ids = (claim: { readonly jobs: readonly { readonly id: string }[] }) => claim.jobs.map(({ id }) => id);

describe("a claim prefetches jobs that run under no limit", () => {
  const open = emptyStorages();
  const five = ["a", "b", "c", "d", "e"];

  test("jobs are prefetched beside those that start at once, in the same order", async () => {
    const { storage } = await open();
    await storage.add(five.map((id) => newJob({ id })));
    const claim = await storage.claim(anything({ max: 1, prefetch: 3 }));
    expect(ids(claim)).toEqual(["a", "b", "c", "d"]);
    expect(claim.more).toBe(true);
    const tokens = claim.jobs.map(({ token }) => token);
    expect(tokens).toEqual(tokens.toSorted((a, b) => a - b));
    const rest = await storage.claim(anything({ max: 0, prefetch: 3 }));
    expect([ids(rest), rest.more, rest.nextInMs]).toEqual([["e"], false, null]);
  });

  test("jobs of several types are prefetched as well", async () => {
    const { storage } = await open();
    await storage.add(five.map((id, i) => newJob({ id, type: i % 2 === 0 ? "t" : "u", priority: i })));
    expect(ids(await storage.claim(anything({ max: 1, prefetch: 2 })))).toEqual(["e", "d", "c"]);
    expect(ids(await storage.claim(anything({ max: 1, prefetch: 2, types: ["t", "u"] })))).toEqual(["b", "a"]);
  });

  test("only jobs that are tried for the first time and may be tried again are prefetched", async () => {
    const { storage } = await open();
    await storage.add(five.map((id, i) => newJob({ id, maxAttempts: i % 2 === 0 ? 1 : 3 })));
    const first = await storage.claim(anything({ max: 1, prefetch: 9 }));
    expect([ids(first), first.more]).toEqual([["a", "b", "d"], true]);
    const none = await storage.claim(anything({ max: 0, prefetch: 9 }));
    expect([ids(none), none.more, none.nextInMs]).toEqual([[], true, 0]);
    expect((await storage.find(["c"]))[0]).toMatchObject({ state: "waiting", attempt: 0, token: 0 });
    // A job that was given back has its attempt again.
    const error = { name: "Error", message: "no" };
    await storage.settle(
      first.jobs
        .slice(1)
        .map(({ id, token }, i) =>
          i === 0
            ? { id, token, to: "retry", inMs: 0, error }
            : { id, token, to: "back", inMs: 0, held: false, hold: null, unstarted: true, error: null },
        ),
    );
    expect(ids(await storage.claim(anything({ max: 0, prefetch: 9 })))).toEqual(["d"]);
    const last = await storage.claim(anything());
    expect([ids(last), last.more]).toEqual([["b", "c", "e"], false]);
  });

  test("no job is prefetched under a limit, on the uniform path or with a plan", async () => {
    const { storage } = await open();
    await storage.add(five.map((id) => newJob({ id })));
    const brought = await storage.claim(
      anything({ max: 1, prefetch: 3, limits: [{ key: "own", max: 100, windowMs: 1_000 }] }),
    );
    expect([ids(brought), brought.more]).toEqual([["a"], true]);
    await storage.limits.define([rule("some", { max: 100, windowMs: 1_000 }, { types: ["t"] })]);
    const uniform = await storage.claim(anything({ max: 1, prefetch: 3 }));
    expect([ids(uniform), uniform.more]).toEqual([["b"], true]);
    await storage.add([newJob({ id: "f", type: "u" })]);
    expect(ids(await storage.claim(anything({ max: 1, prefetch: 3 })))).toEqual(["c"]);
    await storage.limits.define([rule("by group", { concurrency: 5 }, { byGroup: true, types: ["t"] })]);
    expect(ids(await storage.claim(anything({ max: 1, prefetch: 3, types: ["t"] })))).toEqual(["d"]);
    // The other type is under none of the limits.
    expect(ids(await storage.claim(anything({ max: 0, prefetch: 3, types: ["u"] })))).toEqual(["f"]);
  });

  test("no job of a group is prefetched", async () => {
    const { storage } = await open();
    await storage.add(five.map((id) => newJob({ id, group: "g" })));
    expect(ids(await storage.claim(anything({ max: 1, prefetch: 3 })))).toEqual(["a"]);
  });
});
