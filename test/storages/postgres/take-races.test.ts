import { RulesInForce } from "../../../src/limits/claim-rules.ts";
import pg from "pg";
import { describe, expect, test } from "vitest";
import type { LimitRule } from "../../../src/limits/rule.ts";
import { type Asked, recordsOf } from "../../../src/storages/postgres/jobs/claim.ts";
import { propose } from "../../../src/storages/postgres/jobs/proposal.ts";
import type { Snapshot } from "../../../src/storages/postgres/jobs/snapshot.ts";
import { window } from "../../../src/testing/suite/limit-words.ts";
import { anything } from "../jobs.ts";
import { type EmptyStorage, emptyStorages, newJob, rule, WAITING } from "./support.ts";

const NOTHING = { types: [], seen_types: [], seen_counts: [], lanes: [], places: [], kinds: [], emptied: [] };

interface Answer {
  readonly jobs: readonly unknown[];
  readonly snapshot: Snapshot;
}

/** A claim that is made step by step, over a connection of its own. */
class Claiming {
  static #numbers = 1_000;
  readonly #client: pg.ClientBase;
  readonly #types: readonly string[] | null;

  constructor(client: pg.ClientBase, types: readonly string[] | null = null) {
    this.#client = client;
    this.#types = types;
  }

  async ask(plan: object, max: number): Promise<Answer> {
    const { leaseMs, ...request } = anything({ max, types: this.#types });
    const claim = (Claiming.#numbers += 1);
    const text = JSON.stringify({ ...request, settle: undefined, claim, lease_ms: leaseMs, bytes: 1e9, plan });
    const { rows } = await this.#client.query<{ answer: string }>("SELECT sluice.claim_2($1) AS answer", [text]);
    const answer = JSON.parse(rows[0]!.answer) as Asked & Pick<Answer, "snapshot">;
    return { jobs: recordsOf(answer.jobs, anything({ max })), snapshot: answer.snapshot };
  }

  /** The plan that a claim makes from what is there now. */
  async plan(max: number, rules?: readonly LimitRule[]): Promise<object> {
    const { snapshot } = await this.ask({ ...NOTHING, page: 16 }, 0);
    const wanted = { max, bytes: 1e9, spare: 0, begun: false };
    // A claim reads a head for each job that it wants.
    const index = new RulesInForce(rules ?? snapshot.rules ?? []).of("q");
    const { text } = propose({ ...snapshot, each: 1e9 }, index.forClaim(null, []), wanted, undefined);
    return { ...text, page: 16 };
  }
}

describe("a claim that takes by plan", () => {
  const open = emptyStorages();
  const grouped = (group: string, said = {}) => newJob({ type: "t", group, ...said });
  const idsOf = (jobs: readonly { readonly id: string }[]) => jobs.map(({ id }) => id);

  /** A connection that is not one of the storage's. It ends when the work does. */
  async function alone<T>(url: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
    const client = new pg.Client({ connectionString: url });
    client.on("error", () => {});
    await client.connect();
    try {
      return await work(client);
    } finally {
      await client.end().catch(() => {});
    }
  }

  test("does not lose a job that comes into a lane which another claim is about to set not ready", async () => {
    const { storage, url } = await open();
    await storage.add([grouped("g", { id: "first" })]);
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(1);
      await alone(url, async (folding) => {
        // Only one claim at a time folds arrivals: so that it is not this one, another has begun to.
        await folding.query("BEGIN");
        await new Claiming(folding).ask({ ...NOTHING, page: 16 }, 0);
        await client.query("BEGIN");
        expect((await claiming.ask(plan, 1)).jobs).toHaveLength(1);
        await folding.query("COMMIT");
      });
      await storage.add([grouped("g", { id: "second" })]);
      // It folds arrivals, and sees the lane ready still.
      await storage.claim(anything({ max: 0 }));
      await client.query("COMMIT");
    });
    expect(idsOf((await storage.claim(anything())).jobs)).toEqual(["second"]);
  });

  test("leaves a lane ready that another claim is just folding arrivals into", async () => {
    const { storage, url, pool } = await open();
    await storage.add([grouped("g", { id: "first" })]);
    expect(await storage.claim(anything({ max: 0 }))).toMatchObject({ more: true });
    await storage.add([grouped("g", { id: "second" })]);
    await alone(url, async (client) => {
      await client.query("BEGIN");
      await new Claiming(client).ask({ ...NOTHING, page: 16 }, 0);
      expect((await storage.claim(anything({ max: 2 }))).jobs).toHaveLength(2);
      await client.query("COMMIT");
    });
    expect((await pool.query("SELECT ready FROM sluice.lanes")).rows).toEqual([{ ready: true }]);
    await storage.add([grouped("g", { id: "third" })]);
    expect(idsOf((await storage.claim(anything())).jobs)).toEqual(["third"]);
  });

  test("starts the next job of a lane while another claim that was planned for more of them is not committed", async () => {
    const { storage, url } = await open();
    const jobs = [1, 2, 3, 4].map(() => grouped("g"));
    await storage.add(jobs);
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(3);
      await client.query("BEGIN");
      expect((await claiming.ask(plan, 1)).jobs).toMatchObject([{ id: jobs[0]!.id }]);
      expect((await storage.claim(anything({ max: 1 }))).jobs).toMatchObject([{ id: jobs[1]!.id }]);
      await client.query("COMMIT");
    });
  });

  test("waits for another claim under the same limit, and takes only what that one left", async () => {
    const { storage, url, pool } = await open();
    await storage.limits.define([rule("k", window(3, 1_000)), rule("by group", window(9, 1_000), { byGroup: true })]);
    await storage.add(["a", "b", "c", "d"].map((group) => grouped(group)));
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(2);
      await client.query("BEGIN");
      expect((await claiming.ask(plan, 2)).jobs).toHaveLength(2);
      const claim = storage.claim(anything());
      while ((await pool.query(WAITING)).rows.length === 0);
      await client.query("COMMIT");
      const { jobs, more, nextInMs, blockedBy } = await claim;
      expect([jobs.length, more, blockedBy]).toEqual([1, false, "k"]);
      // The locks of a transaction that ends are not released all at once: arrivals may be locked for a moment longer.
      expect([10, 1_000]).toContain(nextInMs);
    });
  });

  test("does not wait for another claim of its queue under other limits", async () => {
    const { storage, url } = await open();
    await storage.limits.define([
      rule("k", window(1, 1_000), { types: ["a"] }),
      rule("l", window(1, 1_000), { types: ["b"] }),
    ]);
    await storage.add(["a", "b"].map((type) => grouped("g", { type, id: type })));
    await alone(url, async (client) => {
      const claiming = new Claiming(client, ["a"]);
      const plan = await claiming.plan(1);
      await client.query("BEGIN");
      expect((await claiming.ask(plan, 1)).jobs).toHaveLength(1);
      expect(idsOf((await storage.claim(anything({ types: ["b"] }))).jobs)).toEqual(["b"]);
      await client.query("COMMIT");
    });
  });

  test("takes nothing by a plan that was made with other rules", async () => {
    const { storage, url } = await open();
    await storage.limits.define([rule("k", window(5, 1_000), { byGroup: true })]);
    await storage.add([1, 2, 3].map(() => grouped("g")));
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(3);
      await storage.limits.define([rule("k", window(1, 1_000), { byGroup: true })]);
      const { jobs, snapshot } = await claiming.ask(plan, 3);
      expect(jobs).toEqual([]);
      expect(snapshot.rules).toMatchObject([{ name: "k", quota: { max: 1 } }]);
    });
    expect(await storage.claim(anything())).toMatchObject({ jobs: [{}], nextInMs: 1_000, blockedBy: "k[g]" });
  });

  test("takes nothing by a plan that jobs of a higher priority came before", async () => {
    const { storage, url } = await open();
    await storage.add([grouped("g", { id: "low" })]);
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(1);
      await storage.add([grouped("g", { id: "high", priority: 1 })]);
      const { jobs, snapshot } = await claiming.ask(plan, 1);
      expect([jobs, snapshot.lines]).toMatchObject([[], [["t", [expect.anything(), expect.anything()]]]]);
    });
    expect(idsOf((await storage.claim(anything())).jobs)).toEqual(["high", "low"]);
  });

  test("grants no more than fits, whatever numbers a plan was made from", async () => {
    const { storage, url } = await open();
    const strict = rule("k", window(2, 1_000), { byGroup: true });
    await storage.limits.define([strict, rule("all", window(3, 1_000))]);
    await storage.add(["a", "a", "a", "b", "b", "b"].map((group) => grouped(group)));
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      // Planned as if there were no limits.
      const plan = await claiming.plan(6, []);
      const { jobs } = await claiming.ask(plan, 6);
      expect(jobs).toHaveLength(3);
    });
    expect(await storage.claim(anything())).toMatchObject({ jobs: [], more: false, nextInMs: 1_000, blockedBy: "all" });
  });

  /** While `work` goes on, the snapshot that `claim` answers with is stopped at a place of its function. */
  async function whileStopped<T>(
    { url, pool }: Pick<EmptyStorage, "url" | "pool">,
    place: RegExp,
    claim: () => Promise<T>,
    work: () => Promise<void>,
  ): Promise<T> {
    const { rows } = await pool.query<{ text: string }>(
      "SELECT pg_get_functiondef(oid) AS text FROM pg_proc WHERE proname = 'snapshot' AND pronamespace = 'sluice'::regnamespace",
    );
    const { text } = rows[0]!;
    const stopped = text.replace(place, "$& PERFORM pg_advisory_xact_lock(4242);");
    expect(stopped).not.toBe(text);
    return alone(url, async (control) => {
      try {
        await control.query(stopped);
        await control.query("SELECT pg_advisory_lock(4242)");
        const claimed = claim();
        while ((await control.query(`${WAITING} AND objid = 4242`)).rows.length === 0);
        await work();
        await control.query("SELECT pg_advisory_unlock(4242)");
        return await claimed;
      } finally {
        await control.query(text);
      }
    });
  }

  test("says when a lane may start that another claim moves to a gate while the snapshot is read", async () => {
    const { storage, url, pool } = await open();
    await storage.limits.define([rule("k", window(1, 1_000), { byGroup: true })]);
    await storage.add([1, 2].map(() => grouped("g")));
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(2);
      await alone(url, async (folding) => {
        // Another claim folds arrivals: a claim that meets one which does looks again in any case.
        await folding.query("BEGIN");
        await new Claiming(folding).ask({ ...NOTHING, page: 16 }, 0);
        await client.query("BEGIN");
        expect((await claiming.ask(plan, 2)).jobs).toHaveLength(1);
        await folding.query("COMMIT");
      });
      const claim = await whileStopped(
        { url, pool },
        /GROUP BY 1, 2\) g;/,
        () => storage.claim(anything()),
        async () => void (await client.query("COMMIT")),
      );
      expect(claim).toMatchObject({ jobs: [], more: false, nextInMs: 1_000, blockedBy: "k[g]" });
    });
  });

  test("finds a lane that another claim brings home from its gate while the snapshot is read", async () => {
    const { storage, url, pool, clock } = await open();
    await storage.limits.define([rule("k", window(1, 1_000), { byGroup: true })]);
    await storage.add([1, 2].map(() => grouped("g")));
    expect(await storage.claim(anything({ max: 2 }))).toMatchObject({ jobs: [{}], blockedBy: "k[g]" });
    await clock.advance(2_500);
    // The server is told the time with the next query.
    await pool.query("SELECT");
    await alone(url, async (client) => {
      await alone(url, async (folding) => {
        await folding.query("BEGIN");
        await folding.query("SELECT pg_advisory_xact_lock(sluice.lock_key('fold', 'q'))");
        await client.query("BEGIN");
        expect((await new Claiming(client).ask({ ...NOTHING, page: 16 }, 0)).snapshot.lines).toHaveLength(1);
        await folding.query("COMMIT");
      });
      const { jobs } = await whileStopped(
        { url, pool },
        /GROUP BY 1, 2\) g;/,
        () => storage.claim(anything()),
        async () => void (await client.query("COMMIT")),
      );
      expect(jobs).toHaveLength(1);
    });
  });

  test("leaves everything as it was if its connection is killed before it is committed", async () => {
    const { storage, url, pool } = await open();
    await storage.limits.define([rule("k", window(2, 1_000), { byGroup: true })]);
    await storage.add([1, 2].map(() => grouped("g")));
    await alone(url, async (client) => {
      const claiming = new Claiming(client);
      const plan = await claiming.plan(2);
      const { rows } = await client.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
      await client.query("BEGIN");
      expect((await claiming.ask(plan, 2)).jobs).toHaveLength(2);
      await pool.query("SELECT pg_terminate_backend($1, 10000)", [rows[0]!.pid]);
    });
    expect((await storage.claim(anything())).jobs).toHaveLength(2);
  });
});
