import type pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import type { Claim } from "../../../src/storage/job-storage.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { emptyStorages, newJob, rule } from "./support.ts";

/** A pool that does something before each statement with `word` in it, as another process may. */
function interrupted(pool: pg.Pool, word: string, interrupt: () => Promise<unknown>): pg.Pool {
  return new Proxy(pool, {
    get(target, name) {
      if (name !== "connect") return Reflect.get(target, name, target) as unknown;
      return async () => {
        const client = await target.connect();
        return new Proxy(client, {
          get(held, member) {
            const value = Reflect.get(held, member, held) as unknown;
            if (typeof value !== "function") return value;
            if (member !== "query") return value.bind(held) as unknown;
            return async (said: string | { readonly text: string }, values: unknown[]) => {
              if ((typeof said === "string" ? said : said.text).includes(word)) await interrupt();
              return held.query(said as string, values);
            };
          },
        });
      };
    },
  });
}

describe("what a claim answers that other claims were faster than", () => {
  const open = emptyStorages();

  test("a worker whose claim ended before its lane stood at the gate looks again, and is woken up by a release then", async () => {
    const { storage, clock } = await open();
    await storage.limits.define([rule("k", { concurrency: 2 }, { byGroup: true })]);
    await storage.add([1, 2, 3].map(() => newJob({ group: "g" })));
    await storage.add([newJob({ group: "g", queue: "r" })]);
    // The claim after the next is planned from what this one sees: two slots.
    expect(await storage.claim(anything({ max: 0 }))).toMatchObject({ more: true });
    const { jobs } = await storage.claim(anything({ queue: "r" }));
    expect(jobs).toHaveLength(1);
    const answer = await storage.claim(anything({ max: 1 }));
    expect(answer).toMatchObject({ jobs: [{}], more: false, nextInMs: 10, blockedBy: "k[g]" });
    expect(await storage.claim(anything({ max: 1 }))).toMatchObject({ jobs: [], nextInMs: null, blockedBy: "k[g]" });
    const woken: boolean[] = [];
    onTestFinished(storage.subscribe({ queue: "q", wake: (mayStart) => woken.push(mayStart) }));
    await clock.advance(10);
    woken.length = 0;
    await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
    expect(woken).toContain(true);
    expect((await storage.claim(anything())).jobs).toHaveLength(1);
  });

  test("there is more if all plans of a claim were overtaken, and a job could start", async () => {
    const { storage: other, pool, clock } = await open();
    await other.limits.define([rule("k", { concurrency: 9 }, { weight: "n" })]);
    await other.add([1, 2, 3, 4, 5, 6].map(() => newJob({ weights: { n: 1 } })));
    const running = [...(await other.claim(anything({ max: 5 }))).jobs];
    const back = { to: "back", inMs: 0, held: false, error: null, hold: null, unstarted: false } as const;
    const storage = new PostgresStorage(
      // Each time a job comes back to the front of the lane.
      interrupted(pool, ".claim_2(", () => {
        const { id, token } = running.pop()!;
        return other.settle([{ id, token, ...back }]);
      }),
      { clock },
    );
    onTestFinished(() => storage.close());
    expect(await storage.claim(anything())).toMatchObject({ jobs: [], more: true, nextInMs: 0 });
    expect(running).toEqual([]);
  });

  test("a job of a higher priority is not passed, however many plans of a claim were overtaken", async () => {
    const { storage: other, pool, clock } = await open();
    await other.add([newJob({ group: "0" })]);
    let calls = 0;
    const storage = new PostgresStorage(
      // Each time a job of a higher priority comes, but before the last call.
      interrupted(pool, ".claim_2(", async () => {
        calls += 1;
        if (calls <= 4) await other.add([newJob({ id: `of priority ${calls}`, group: `${calls}`, priority: calls })]);
      }),
      { clock },
    );
    onTestFinished(() => storage.close());
    expect((await storage.claim(anything({ max: 1 }))).jobs).toMatchObject([{ id: "of priority 4" }]);
    expect(calls).toBe(5);
  });

  test("workers of one process for different types plan from what the latest claim of their types saw", async () => {
    const { storage: other, pool, clock } = await open();
    await other.add(
      ["a", "b"].flatMap((type) => Array.from({ length: 9 }, (_, n) => newJob({ type, group: `g${n}` }))),
    );
    let statements = 0;
    const storage = new PostgresStorage(
      interrupted(pool, ".claim_2(", () => Promise.resolve((statements += 1))),
      { clock },
    );
    onTestFinished(() => storage.close());
    for (let i = 0; i < 5; i++)
      for (const type of ["a", "b"])
        expect((await storage.claim(anything({ types: [type], max: 1 }))).jobs).toHaveLength(1);
    // The first of each type begins with a snapshot.
    expect(statements).toBe(12);
  });

  test("a heavy head whose instant has come is not overtaken between the statements of the claim that starts it", async () => {
    const { storage: other, pool, clock } = await open();
    await other.limits.define([rule("k", { max: 10, windowMs: 2_000 }, { weight: "n" })]);
    const light = () => other.add([newJob({ type: "light", weights: { n: 5 } })]);
    await light();
    expect((await other.claim(anything({ types: ["light"] }))).jobs).toHaveLength(1);
    await other.add([newJob({ id: "heavy", type: "heavy", weights: { n: 10 } })]);
    let statements = 0;
    let between: Claim | undefined;
    const storage = new PostgresStorage(
      interrupted(pool, ".claim_2(", async () => {
        statements += 1;
        if (statements === 4) between = await other.claim(anything({ types: ["light"] }));
      }),
      { clock },
    );
    onTestFinished(() => storage.close());
    expect(await storage.claim(anything({ types: ["heavy"] }))).toMatchObject({ jobs: [], nextInMs: 2_000 });
    await light();
    await clock.advance(2_000);
    statements = 2;
    expect((await storage.claim(anything({ types: ["heavy"], max: 1 }))).jobs.map(({ id }) => id)).toEqual(["heavy"]);
    expect([statements, between?.jobs]).toEqual([4, []]);
  });
});
