import type pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
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
});
