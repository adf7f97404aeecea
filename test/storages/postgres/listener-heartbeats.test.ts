import pg from "pg";
import { describe, expect, it, onTestFinished } from "vitest";
import { Proxy } from "../../../chaos/conductor/proxy.ts";
import { FakeClock } from "../../../src/testing/fake-clock.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { settle } from "../../../src/storages/postgres/jobs/settle.ts";
import { anything } from "../jobs.ts";
import { opened, openListening, poolOf, until } from "./client-support.ts";
import { listener, sayingDatabase, stopping } from "./listeners.ts";
import { once } from "./server.ts";
import { newJob, rule } from "./support.ts";

const A_JOB_MORE = "SELECT nextval(pg_get_serial_sequence('sluice.jobs', 'seq'))";
const HEARTBEAT_WAITS = `SELECT 1 FROM pg_stat_activity
  WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%listener_heartbeat_2(%'`;

/** A storage that listens over a connection that can be cut off, on a fake clock. */
async function listening() {
  const url = new URL(await sayingDatabase());
  const proxy = await Proxy.open(Number(url.port));
  onTestFinished(() => proxy.close());
  const way = new URL(url);
  way.port = String(proxy.port);

  let statements = 0;
  let held: (() => void)[] | undefined;
  const Watched = class extends pg.Client {
    constructor(config?: pg.ClientConfig) {
      super(config);
      const emit = this.emit.bind(this);
      this.emit = (name: string | symbol, ...args: unknown[]) => {
        const now = () => emit(name as "drain", ...(args as []));
        if (name !== "notification" || held === undefined) return now();
        held.push(now);
        return true;
      };
    }
    override query = ((...args: unknown[]) => {
      statements += 1;
      return (pg.Client.prototype.query as (...all: unknown[]) => unknown).apply(this, args);
    }) as pg.Client["query"];
  };

  const clock = new FakeClock();
  const pool = poolOf(way.href, { Client: Watched as unknown as new () => pg.ClientBase });
  const { hub, database } = openListening(pool, { clock });
  const ears = () => [...proxy.passages].filter(({ said }) => said.includes("LISTEN"));
  return {
    url: url.href,
    clock,
    database,
    subscribe: () => listener(hub),
    statements: () => statements,
    ears,
    /** Cuts off the connection that listens. */
    cut: () => {
      for (const passage of ears()) passage.blackhole();
    },
    /** Holds back notifications until `release`. */
    hold: () => {
      held = [];
    },
    release: () => {
      const waiting = held ?? [];
      held = undefined;
      for (const look of waiting) look();
    },
    /** Advances the clock to the next heartbeat. */
    tick: () => clock.advance(5_000 - (clock.now() % 5_000)),
    /** Waits until the heartbeat is answered, for a second at the most. */
    answer: () => until(() => clock.nextTimerIn !== 1_000, "a heartbeat to be answered"),
  };
}

type Listening = Awaited<ReturnType<typeof listening>>;

/** A listener that is known to receive notifications. */
async function receiving() {
  const there = await listening();
  const far = there.subscribe();
  await there.database.call("present");
  await allReceived(there, far.wakes);
  far.wakes.length = 0;
  return { ...there, far };
}

/** Waits until it has received all notifications that were sent before. */
async function allReceived({ url }: Pick<Listening, "url">, wakes: readonly boolean[]): Promise<void> {
  const received = wakes.length + 1;
  await once(url, "SELECT sluice.notify_queues(ARRAY['q'])");
  await until(() => wakes.length === received, "the notification");
}

/** No listener can register before the returned function is called. */
async function blockRegistration(url: string): Promise<() => Promise<void>> {
  const client = await poolOf(url).connect();
  await client.query("BEGIN; LOCK TABLE sluice.listeners IN EXCLUSIVE MODE");
  return async () => {
    await client.query("COMMIT");
    client.release();
  };
}

describe("a heartbeat of a listener, every five seconds", () => {
  it("a heartbeat is one statement, and wakes up no subscriber", async () => {
    const { tick, answer, clock, statements, far, ears, ...there } = await receiving();
    const before = statements();
    for (let i = 1; i <= 5; i++) {
      await tick();
      await answer();
      await allReceived(there, far.wakes);
      await clock.advance(250);
      expect([statements() - before, far.wakes.length]).toEqual([i, i]);
    }
    expect(ears()).toHaveLength(1);
  });

  it("a heartbeat makes up for a notification that was lost", async () => {
    const { url, tick, far } = await receiving();
    await once(url, A_JOB_MORE);
    await tick();
    await until(() => far.wakes.length > 0, "the wake-up of subscribers");
    expect(far.wakes).toEqual([false]);
  });

  it("a heartbeat makes up for the notification of a release by a process that was killed", async () => {
    const { url, tick, answer, far } = await receiving();
    const storage = new PostgresStorage(url);
    onTestFinished(() => storage.close());
    await storage.limits.define([rule("k", { concurrency: 1 })]);
    await storage.add([newJob(), newJob()]);
    const claim = () => storage.claim(anything({ max: 1 }));
    const [job] = (await claim()).jobs;
    expect((await claim()).blockedBy).toBe("k");
    await allReceived({ url }, far.wakes);
    await tick();
    await answer();
    await allReceived({ url }, far.wakes);
    far.wakes.length = 0;
    // It has no hub, so nothing is notified of what it does.
    await settle(opened(url), [{ id: job!.id, token: job!.token, to: "completed", result: null }]);
    await tick();
    await until(() => far.wakes.length > 0, "the wake-up of subscribers");
    expect(far.wakes).toEqual([true]);
  });

  it("a listener that registers again, since it wants events, makes up for the notification of a release as a heartbeat does", async () => {
    const { url, tick, answer, far } = await receiving();
    const storage = new PostgresStorage(url);
    onTestFinished(() => storage.close());
    await storage.limits.define([rule("k", { concurrency: 1 })]);
    await storage.add([newJob(), newJob()]);
    const claim = () => storage.claim(anything({ max: 1 }));
    const [job] = (await claim()).jobs;
    expect((await claim()).blockedBy).toBe("k");
    await tick();
    await answer();
    await allReceived({ url }, far.wakes);
    far.wakes.length = 0;
    await settle(opened(url), [{ id: job!.id, token: job!.token, to: "completed", result: null }]);
    onTestFinished(far.recordEvents());
    await until(() => far.wakes.length > 0, "the wake-up of subscribers");
    expect(far.wakes).toEqual([true]);
  });

  it("a heartbeat names jobs to be cancelled, for its own process only", async () => {
    const { url, tick, answer, far } = await receiving();
    const other = new pg.Client(url);
    await other.connect();
    onTestFinished(() => other.end());
    const said: (string | undefined)[] = [];
    other.on("notification", ({ payload }) => said.push(payload));
    await other.query('LISTEN "sluice:sluice"');
    await stopping(url, "job");
    for (let i = 1; i <= 3; i++) {
      await tick();
      await answer();
      await until(() => far.cancelled.length === i, "the request to stop");
    }
    await allReceived({ url }, far.wakes);
    await until(() => said.length > 0, "the last to be said");
    expect(said).toHaveLength(1);
    expect(far.cancelled).toEqual(["job", "job", "job"]);
  });
});

describe("a connection that listens and is cut off", () => {
  it("a job that was added is found with the next heartbeat", async () => {
    const { url, cut, tick, far } = await receiving();
    cut();
    await once(url, A_JOB_MORE);
    await tick();
    await until(() => far.wakes.length > 0, "the wake-up of subscribers");
    expect(far.wakes).toEqual([false]);
  });

  it("subscribers look a moment later, and with every heartbeat until notifications are received again", async () => {
    const { url, cut, tick, answer, clock, far, ears } = await receiving();
    cut();
    const deaf = ears();
    await tick();
    await answer();
    expect(far.wakes).toEqual([]);
    await clock.advance(250);
    expect(far.wakes).toEqual([true]);
    await tick();
    await until(() => far.wakes.length === 2, "the wake-up of subscribers");
    await clock.advance(100);
    await until(() => far.wakes.length === 3, "the new connection to listen, and the wake-up of subscribers");
    await allReceived({ url }, far.wakes);
    // That the connection receives notifications is known once it has received that of a heartbeat.
    await tick();
    await until(() => far.wakes.length === 5, "the wake-up of subscribers");
    await allReceived({ url }, far.wakes);
    await tick();
    await answer();
    await allReceived({ url }, far.wakes);
    await clock.advance(250);
    expect(far.wakes).toHaveLength(7);
    expect(ears().filter((passage) => !deaf.includes(passage))).toHaveLength(1);
  });
});

it("a connection is not replaced because the process itself was held up", async () => {
  const { url, hold, release, tick, answer, far, ears } = await receiving();
  hold();
  await tick();
  await answer();
  const end = await blockRegistration(url);
  await tick();
  await until(async () => (await once(url, HEARTBEAT_WAITS)).length > 0, "the next heartbeat to be sent");
  release();
  await end();
  await answer();
  await allReceived({ url }, far.wakes);
  expect(ears()).toHaveLength(1);
});

it("a process that could only register late as a listener looks for what it missed", async () => {
  const { url, subscribe, clock, database } = await listening();
  await database.call("present");
  const end = await blockRegistration(url);
  const far = subscribe();
  await until(async () => (await once(url, HEARTBEAT_WAITS)).length > 0, "the registration to be sent");
  await clock.advance(1_000);
  await database.call("present");
  await once(url, A_JOB_MORE);
  expect(far.wakes).toEqual([]);
  await end();
  // Time advances a little: on a slow machine the process may have given up waiting for the lock, and tries again in a moment.
  const looked = async () => {
    await clock.advance(1);
    return far.wakes.length > 0;
  };
  await until(looked, "the wake-up of subscribers");
  expect(far.wakes).toEqual([true]);
});
