import { describe, expect, test } from "vitest";
import { anything } from "../jobs.ts";
import { emptyStorages } from "./support.ts";

describe("limits that claims bring along", () => {
  const open = emptyStorages();
  const [one, other] = [1, 2].map((max) => [{ key: "l", max, windowMs: 1_000 }]);

  test("limits that claims bring are written once a second where workers disagree, and no claim waits for another one to write them", async () => {
    const { storage, clock, pool } = await open();
    const kept = async () =>
      (await pool.query<{ at: string; limits: unknown }>("SELECT ctid::text AS at, limits FROM sluice.claims")).rows[0];
    await storage.claim(anything({ limits: one! }));
    const first = await kept();
    expect(first).toMatchObject({ limits: one });
    await clock.advance(999);
    for (const limits of [other!, one!, [], other!]) await storage.claim(anything({ limits }));
    expect(await kept()).toEqual(first);
    await clock.advance(1);
    const client = await pool.connect();
    await client.query("BEGIN; SELECT FROM sluice.claims FOR UPDATE");
    await storage.claim(anything({ limits: other! }));
    await client.query("ROLLBACK");
    client.release();
    expect(await kept()).toEqual(first);
    await storage.claim(anything({ limits: other! }));
    expect(await kept()).toMatchObject({ limits: other });
    await clock.advance(1_000);
    await storage.claim(anything());
    expect(await kept()).toMatchObject({ limits: [] });
  });
});
