import { describe, expect, test } from "vitest";
import { emptyStorages, newJob } from "./support.ts";

describe("jobs that have come due, before any claim has seen them", () => {
  const open = emptyStorages();

  /** `due` and `due too` are due, `coming` is not; `waiting` was due from the start. */
  async function scene() {
    const { storage, clock } = await open();
    await storage.setup();
    await storage.add([
      newJob({ id: "due", due: { inMs: 100 } }),
      newJob({ id: "coming", due: { inMs: 9_000 } }),
      newJob({ id: "waiting" }),
      newJob({ id: "due too", due: { inMs: 50 } }),
      newJob({ id: "of another kind", type: "u", due: { inMs: 50 } }),
    ]);
    await clock.advance(200);
    return storage;
  }
  const ids = ["due", "coming", "waiting", "due too"];
  const where = { type: "t", group: null, endedForMs: null } as const;

  test.each(["cancel", "remove"] as const)(
    "%s: jobs that have come due count as waiting, by their ids and by their filter",
    async (action) => {
      const change = { action, queue: "q" } as const;
      expect(await (await scene()).change({ ...change, ids, states: ["waiting"] })).toEqual([
        "due",
        "waiting",
        "due too",
      ]);
      expect(await (await scene()).change({ ...change, ids, states: ["scheduled"] })).toEqual(["coming"]);
      const waiting = { ...change, where: { ...where, states: ["waiting"] } } as const;
      expect(await (await scene()).change({ ...waiting, limit: 10 })).toEqual(["due", "waiting", "due too"]);
      expect(await (await scene()).change({ ...waiting, limit: 1 })).toEqual(["due"]);
      const scheduled = { ...change, where: { ...where, states: ["scheduled"] }, limit: 1 } as const;
      expect(await (await scene()).change(scheduled)).toEqual(["coming"]);
      const both = { ...change, where: { ...where, states: ["scheduled", "waiting"] }, limit: 3 } as const;
      expect(await (await scene()).change(both)).toEqual(["due", "coming", "waiting"]);
    },
  );

  test("promote: jobs that have come due are not promoted", async () => {
    const promote = { action: "promote", queue: "q" } as const;
    expect(await (await scene()).change({ ...promote, ids })).toEqual(["coming"]);
    const some = { ...promote, where: { ...where, states: ["scheduled"] }, limit: 1 } as const;
    expect(await (await scene()).change(some)).toEqual(["coming"]);
  });
});
