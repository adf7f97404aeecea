import pg from "pg";
import { describe, expect, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { anything } from "../jobs.ts";
import { after, until } from "./office.ts";
import { temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

describe("another session that holds locks of ours", () => {
  /** In a transaction that is open until the returned function is called. */
  async function holding(url: string, statement: string): Promise<() => Promise<void>> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    await client.query("BEGIN");
    await client.query(statement);
    return async () => {
      await client.query("ROLLBACK");
      await client.end();
    };
  }

  test.each([
    ["a row of a job", "SELECT FROM sluice.jobs WHERE state = 'active' FOR UPDATE"],
    ["a limit", "SELECT sluice.lock_limits(ARRAY['k'])"],
  ])(
    "%s: a call that needs it fails at its deadline, other calls go on, and the next call succeeds after the release",
    async (_what, statement) => {
      const url = await temporaryDatabase();
      const storage = new PostgresStorage(url, { timeout: 700 });
      await storage.limits.define([rule("k", { concurrency: 5 }, { queues: ["q"] })]);
      await storage.add([newJob(), newJob(), newJob({ queue: "other" })]);
      const [job] = (await storage.claim(anything({ max: 1 }))).jobs;
      const outcome = { id: job!.id, token: job!.token, to: "completed", result: null } as const;
      const release = await holding(url, statement);
      const began = systemClock.now();
      await expect(storage.settle([outcome])).rejects.toMatchObject({ code: "SLUICE_STORAGE" });
      expect(systemClock.now() - began).toBeLessThan(2_000);
      expect((await storage.claim(anything({ queue: "other" }))).jobs).toHaveLength(1);
      expect(await storage.add([newJob()])).toMatchObject([{ created: true }]);
      const waiting = until(
        async () => (await storage.settle([outcome]).catch(() => undefined)) !== undefined,
        10_000,
        "it is settled",
      );
      await after(200);
      await release();
      const released = systemClock.now();
      await waiting;
      expect(systemClock.now() - released).toBeLessThan(1_000);
      expect((await storage.find([job!.id]))[0]?.state).toBe("completed");
      expect((await storage.claim(anything())).jobs).toHaveLength(2);
      await storage.close();
    },
  );
});
