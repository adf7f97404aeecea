import { expect, test } from "vitest";
import { Seeded } from "../../../chaos/conductor/seeded.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { Actor, SharedIds, QUEUES, RULES } from "./crowd.ts";
import { once, temporaryDatabase } from "./server.ts";

/** `SLUICE_CROWD_MS=60000 SLUICE_SEED=7 vitest run …` takes a minute, from another beginning. */
const LASTS_MS = Number(process.env["SLUICE_CROWD_MS"] ?? 6_000);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);
const ACTORS = 8;

/** What would be wrong in the tables while no statement runs. */
const WRONG: Readonly<Record<string, string>> = {
  "slots of jobs that do not run": `SELECT * FROM sluice.slots h WHERE until IS NULL AND token > 0
    AND NOT EXISTS (SELECT FROM sluice.jobs j WHERE j.token = h.token AND state = 'active')`,
  "slots of more jobs or of fewer than run": `SELECT * FROM sluice.slots h WHERE token < 0
    AND (n, slots) <> (SELECT count(*), count(*) FROM sluice.jobs j WHERE sluice.block_of(j.token) = h.token AND state = 'active')`,
  "what jobs hold that is no sum": `SELECT name, grp, held FROM sluice.limits l WHERE held <>
    (SELECT coalesce(sum(slots), 0) FROM sluice.slots h WHERE h.limit_id = l.id AND until IS NULL)`,
  "starts and slots of limits that there are not": `SELECT limit_id FROM sluice.slots UNION ALL SELECT limit_id FROM sluice.starts
    EXCEPT ALL SELECT limit_id FROM (SELECT limit_id FROM sluice.slots UNION ALL SELECT limit_id FROM sluice.starts) s
      JOIN sluice.limits l ON l.id = s.limit_id`,
  "totals that are no sums": `SELECT name, grp, used FROM sluice.limits l WHERE window_ms IS NOT NULL AND used <>
    (SELECT coalesce(sum(n), 0) FROM sluice.starts s WHERE s.limit_id = l.id AND l.seen_at - s.at < l.window_ms)`,
  "jobs that wait in a group that no lane stands for": `SELECT j.id FROM sluice.jobs j WHERE state = 'waiting' AND grp IS NOT NULL
    AND NOT EXISTS (SELECT FROM sluice.lanes l
      WHERE (l.queue, l.type, l.priority, l.grp) = (j.queue, j.type, j.priority, ':' || j.grp) AND l.ready)
    AND NOT EXISTS (SELECT FROM sluice.arrivals a
      WHERE (a.queue, a.type, a.priority, a.grp) = (j.queue, j.type, j.priority, j.grp))`,
  "tokens that two jobs have": `SELECT token FROM sluice.jobs WHERE token > 0 GROUP BY token HAVING count(*) > 1`,
};

test(
  `eight actors that do everything at once never deadlock (seed ${SEED})`,
  { timeout: LASTS_MS + 60_000 },
  async () => {
    const url = await temporaryDatabase();
    // The server detects a deadlock before any statement reaches its timeout.
    await once(url, `ALTER DATABASE ${new URL(url).pathname.slice(1)} SET deadlock_timeout = '50ms'`);
    const storages = Array.from({ length: ACTORS }, () => new PostgresStorage(url, { connections: 1 }));
    await storages[0]!.limits.define(RULES);
    const shared = new SharedIds();
    const actors = storages.map((storage, i) => new Actor(`w${i}`, storage, shared, new Seeded(SEED + i)));
    const until = performance.now() + LASTS_MS;
    let steps = 0;
    await Promise.all(
      actors.map(async (actor) => {
        while (performance.now() < until) {
          await actor.act();
          steps += 1;
        }
        await actor.leave();
      }),
    );
    expect(steps).toBeGreaterThan(LASTS_MS / 40);

    for (const [what, query] of Object.entries(WRONG)) expect(await once(url, query), what).toEqual([]);
    await drain(storages[0]!);
    expect(await once(url, "SELECT id FROM sluice.jobs WHERE state NOT IN ('completed', 'dead', 'cancelled')")).toEqual(
      [],
    );
    expect(await once(url, "SELECT * FROM sluice.slots")).toEqual([]);

    // Every job that a call reported as added is there, except those that were removed or replaced by others.
    const { added, removed, keyed } = shared;
    const ids = [...added].filter((id) => !removed.has(id));
    const found = await storages[0]!.find(ids);
    expect(ids.filter((id, i) => found[i] === undefined && !keyed.has(id))).toEqual([]);

    await Promise.all(storages.map((storage) => storage.close()));
    expect(await deadlocks(url)).toBe(0);
  },
);

/** Whatever waits can be started and completed, once nothing is limited any more. */
async function drain(storage: PostgresStorage): Promise<void> {
  for (const { name } of RULES) await storage.limits.remove(name);
  for (const queue of QUEUES) {
    const where = { states: ["scheduled"], type: null, group: null, endedForMs: null } as const;
    while ((await storage.change({ action: "promote", queue, where, limit: 1_000 })).length > 0);
    await leasesOver(storage, queue);
    const request = { queue, worker: "last", max: 100, types: null, leaseMs: 60_000, limits: [] };
    for (let more = true; more;) {
      const { jobs, more: others } = await storage.claim({ ...request, settle: [] });
      await storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
      more = others || jobs.length > 0;
    }
  }
}

/** Expires the leases of jobs that were claimed and lost. */
async function leasesOver(storage: PostgresStorage, queue: string): Promise<void> {
  for (;;) {
    while ((await storage.sweep()).more);
    const { jobs } = await storage.list({
      queue,
      states: ["active"],
      type: null,
      group: null,
      since: null,
      until: null,
      limit: 1,
      cursor: null,
    });
    if (jobs.length === 0) return;
  }
}

/** How many deadlocks the server has counted, once all sessions that could have been in one have reported. */
async function deadlocks(url: string): Promise<number> {
  for (;;) {
    const [row] = (await once(
      url,
      `SELECT deadlocks::int,
        (SELECT count(*)::int FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
          AND backend_type = 'client backend') AS others
      FROM pg_stat_database WHERE datname = current_database()`,
    )) as { deadlocks: number; others: number }[];
    if (row!.others === 0) return row!.deadlocks;
  }
}
