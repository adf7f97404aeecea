import pg from "pg";
import { describe, expect, it } from "vitest";
import type { JobEvent } from "../../../src/core/events.ts";
import type { PostgresDatabase } from "../../../src/storages/postgres/database.ts";
import type { PostgresPool } from "../../../src/storages/postgres/driver.ts";
import type { StepHints } from "../../../src/storages/postgres/step-hints.ts";
import { openListening, hurried, poolOf, until } from "./client-support.ts";
import { listener, sayingDatabase, stopping } from "./listeners.ts";
import { once } from "./server.ts";

const say = (database: PostgresDatabase, hints: StepHints) => database.call("say", JSON.stringify(hints));

const LISTENING = `SELECT pid FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%'`;

describe("notifications of other processes", () => {
  it("the hints of a step reach other processes, and its own process once", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const there = openListening(url);
    const near = listener(here.hub);
    const far = listener(there.hub);
    const other = listener(there.hub, "other");
    // Both listen by then, and have read which jobs are asked to stop.
    await Promise.all([here.database.call("present"), there.database.call("present")]);
    await stopping(url, "job-1");
    await say(here.database, { woken: [["q", true]], stopping: [["q", "job-1"]] });
    expect([near.wakes, near.cancelled]).toEqual([[true], ["job-1"]]);
    await until(() => far.wakes.length > 0 && far.cancelled.length > 0, "the other process to be notified", 1_000);
    expect([far.wakes, far.cancelled]).toEqual([[true], ["job-1"]]);
    expect(other.wakes).toEqual([]);
    await say(here.database, { wakeAll: true });
    await until(() => other.wakes.length > 0 && far.wakes.length > 1, "all subscribers to be notified", 1_000);
    expect([near.wakes, near.cancelled]).toEqual([[true, true], ["job-1"]]);
  });

  it("many hints are sent in one notification", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const there = openListening(url);
    const far = listener(there.hub, null);
    await there.database.call("present");
    for (let i = 0; i < 200; i++) await say(here.database, { woken: [["q", i % 2 === 0]] });
    await say(here.database, { woken: [["last", true]] });
    const queues = new Set<string>();
    there.hub.subscribe({ queue: "last", wake: () => queues.add("last") });
    await until(() => far.wakes.length > 0, "a first notification");
    await say(here.database, { woken: [["last", true]] });
    await until(() => queues.size > 0, "the notification of the last queue");
    expect(far.wakes.length).toBeLessThan(100);
  });

  it("more hints than fit into a notification wake up all queues", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const there = openListening(url);
    const far = listener(there.hub, "q-399");
    await there.database.call("present");
    const woken = Array.from({ length: 400 }, (_, i) => [`q-${i}`, false] as const);
    await say(here.database, { woken });
    await until(() => far.wakes.length > 0, "the notification");
  });

  it("a process that begins to listen is notified within a second", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    // No process listens, and that is remembered for a moment.
    await say(here.database, { woken: [["q", true]] });
    const there = openListening(url);
    const far = listener(there.hub);
    await there.database.call("present");
    await say(here.database, { woken: [["q", true]] });
    await until(() => far.wakes.length > 0, "the notification", 1_000);
  });

  it("a malformed notification is ignored", async () => {
    const url = await sayingDatabase();
    const there = openListening(url);
    const far = listener(there.hub);
    await there.database.call("present");
    for (const text of ["", "null", "[]", "{", '{"queues":[1,["q"],["q","x"],[null,true]],"stopping":[{}]}']) {
      await once(url, "SELECT pg_notify(sluice.channel(), $1)", [text]);
    }
    await once(url, "SELECT sluice.notify_queues(ARRAY['q'])");
    await until(() => far.wakes.length > 0, "the well-formed notification");
    expect([far.wakes, far.cancelled]).toEqual([[true], []]);
  });

  it("a notification that a job is to be cancelled counts only if the table says so", async () => {
    const url = await sayingDatabase();
    const there = openListening(url);
    const far = listener(there.hub);
    await there.database.call("present");
    await stopping(url, "asked", "runs on", "has ended");
    await once(url, "UPDATE sluice.jobs SET cancel_requested = false WHERE id = 'runs on'");
    await once(url, "UPDATE sluice.jobs SET state = 'waiting', lease_until = NULL WHERE id = 'has ended'");
    const forged = { stopping: ["runs on", "has ended", "missing"].map((id) => ["q", id]) };
    await once(url, "SELECT pg_notify(sluice.channel(), $1)", [JSON.stringify(forged)]);
    // Under another queue than its own: the table decides in which queue the job is.
    await once(url, "SELECT pg_notify(sluice.channel(), $1)", [JSON.stringify({ stopping: [["r", "asked"]] })]);
    await until(() => far.cancelled.length > 0, "the one that was asked to stop");
    expect(far.cancelled).toEqual(["asked"]);
  });

  it("a subscriber that comes while the last one leaves is notified", async () => {
    const url = await sayingDatabase();
    const pool = poolOf(url, { max: 1 });
    const there = openListening(pool, { connections: 0, clock: hurried(10) });
    const gone = listener(there.hub);
    await there.database.call("present");
    const held = await pool.connect();
    gone.unsubscribe();
    await until(() => pool.waitingCount > 0, "the listener to unregister");
    listener(there.hub);
    // The new listener would be registered now, and removed when the request to unregister is processed.
    await new Promise((resolve) => setTimeout(resolve, 50));
    held.release();
    await there.database.call("present");
    await until(() => pool.waitingCount === 0 && pool.idleCount === 1, "all requests to be sent");
    expect(await once(url, "SELECT 1 FROM sluice.listeners")).toHaveLength(1);
  });

  it("jobs that are added in a transaction of the user are notified when it is committed", async () => {
    const url = await sayingDatabase();
    const there = openListening(url);
    const far = listener(there.hub);
    await there.database.call("present");
    const client = await poolOf(url).connect();
    await client.query("BEGIN");
    await client.query("SELECT sluice.notify_queues(ARRAY['q', 'r'], false)");
    await client.query("ROLLBACK; BEGIN; SELECT sluice.notify_queues(ARRAY['q'], true); COMMIT");
    client.release();
    await until(() => far.wakes.length > 0, "the notification");
    expect(far.wakes).toEqual([true]);
  });
});

describe("events", () => {
  const event = (id: string): JobEvent => ({ event: "added", queue: "q", type: "t", id });
  const insert = "INSERT INTO sluice.events (at, event) VALUES (0, $1)";

  it("events come from the next step on, from any process, once, in order", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const there = openListening(url);
    await here.database.call("publish", JSON.stringify(event("before")));
    const near = listener(here.hub);
    near.recordEvents();
    await here.database.call("publish", JSON.stringify(event("1")));
    await there.database.call("publish", JSON.stringify(event("2")));
    await here.database.call("publish", JSON.stringify(event("3")));
    await until(() => near.events.length >= 3, "all events");
    expect(near.events).toEqual([event("1"), event("2"), event("3")]);
  });

  it("no events are written while no subscriber wants them", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const near = listener(here.hub);
    await here.database.call("publish", JSON.stringify(event("1")));
    expect(await once(url, "SELECT event FROM sluice.events")).toEqual([]);
    const unsubscribe = near.recordEvents();
    await here.database.call("publish", JSON.stringify(event("2")));
    await until(() => near.events.length > 0, "the event");
    unsubscribe();
    near.unsubscribe();
    await until(
      async () => (await once(url, "SELECT 1 FROM sluice.listeners")).length === 0,
      "no listener to be registered",
    );
  });

  it("events that are committed after later ones are read", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const near = listener(here.hub);
    near.recordEvents();
    await here.database.call("present");
    const pool = poolOf(url);
    const late = await pool.connect();
    const never = await pool.connect();
    await late.query("BEGIN");
    await late.query(insert, [JSON.stringify(event("late 1"))]);
    await late.query(insert, [JSON.stringify(event("late 2"))]);
    await never.query("BEGIN");
    await never.query(insert, [JSON.stringify(event("never"))]);
    await never.query("ROLLBACK");
    never.release();
    await here.database.call("publish", JSON.stringify(event("early")));
    await until(() => near.events.length > 0, "the early event");
    await late.query("COMMIT");
    late.release();
    await here.database.call("publish", JSON.stringify(event("last")));
    await until(() => near.events.length >= 4, "all events");
    expect(near.events).toEqual([event("early"), event("late 1"), event("late 2"), event("last")]);
  });

  it("many events that are written at once are all read", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const near = listener(here.hub);
    near.recordEvents();
    await here.database.call("present");
    await once(
      url,
      `INSERT INTO sluice.events (at, event) SELECT 0, json_build_object('event', 'added', 'queue', 'q', 'type', 't', 'id', i) FROM generate_series(1, 3500) AS i`,
    );
    await say(here.database, { events: true });
    await until(() => near.events.length >= 3_500, "all events");
    expect(near.events.map((one) => ("id" in one ? Number(one.id) : 0))).toEqual(
      Array.from({ length: 3_500 }, (_, i) => i + 1),
    );
  });
});

describe("a storage that receives no notifications", () => {
  it("a connection that was killed is replaced, subscribers look once, and then are notified", async () => {
    const url = await sayingDatabase();
    const here = openListening(url);
    const there = openListening(url);
    const far = listener(there.hub);
    await there.database.call("present");
    const killed = await once(url, `SELECT pg_terminate_backend(pid) FROM (${LISTENING}) AS l`);
    expect(killed).toHaveLength(1);
    await until(() => far.wakes.length > 0, "the wake-up of subscribers");
    expect(far.wakes).toEqual([true]);
    await say(here.database, { woken: [["q", false]] });
    await until(() => far.wakes.length > 1, "the next notification");
    expect(far.wakes).toEqual([true, false]);
  });

  it("subscribers look every 5 s if the pool makes no connection to listen on, or a pooler drops notifications", async () => {
    const url = await sayingDatabase();
    const pool = poolOf(url);
    const bare: PostgresPool = { query: (text, values) => pool.query(text, values), connect: () => pool.connect() };
    const clock = hurried(20);
    const there = openListening(bare, { clock });
    const far = listener(there.hub);
    // Where registering takes long, subscribers look once more at the beginning.
    await until(() => far.wakes.length >= 2, "to look twice");
    const start = clock.now();
    const before = far.wakes.length;
    await until(() => far.wakes.length >= before + 3, "to look three times");
    // Not more often; that it is never later is for listener-heartbeats.test.ts, which does not depend on the machine.
    expect((clock.now() - start) / 3).toBeGreaterThan(4_000);
  });

  it("a connection on which notifications get lost is not replaced all the time", async () => {
    const url = await sayingDatabase();
    let connections = 0;
    const Deaf = class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super(config);
        connections += 1;
        const emit = this.emit.bind(this);
        this.emit = (name: string | symbol, ...args: unknown[]) =>
          name === "notification" ? true : emit(name as "drain", ...(args as []));
      }
    };
    const clock = hurried(20);
    const there = openListening(poolOf(url, { Client: Deaf as unknown as new () => pg.ClientBase, max: 1 }), { clock });
    const far = listener(there.hub);
    await until(() => far.wakes.length >= 12, "to look twelve times");
    // The connection of the pool, and now and then one that listens in vain.
    expect(connections).toBeLessThanOrEqual(10);
    expect(connections).toBeGreaterThan(2);
  });
});
