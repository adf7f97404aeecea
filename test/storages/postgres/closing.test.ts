import { Socket } from "node:net";
import pg from "pg";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { StorageError } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { mutableServer, poolOf, silentServer, until } from "./client-support.ts";
import { temporaryDatabase } from "./server.ts";
import { newJob, rule } from "./support.ts";

/** The clock of the system, which counts its open timers. */
class WatchedClock implements Clock {
  out = 0;
  readonly now = () => systemClock.now();
  readonly wall = () => systemClock.wall();

  after(ms: number, callback: () => void): () => void {
    let over = false;
    const end = () => {
      if (!over) this.out -= 1;
      over = true;
    };
    this.out += 1;
    const cancel = systemClock.after(ms, () => {
      end();
      callback();
    });
    return () => {
      end();
      cancel();
    };
  }
}

/** Which connection a call is made on. */
type Way = "a pool of its own" | "a pool of the user's" | "the reserve";
const WAYS: readonly Way[] = ["a pool of its own", "a pool of the user's", "the reserve"];

/** A storage that is set up, and a session that can lock the table of jobs. */
async function lockable(way: Way) {
  const url = await temporaryDatabase();
  const clock = new WatchedClock();
  const pool = way === "a pool of its own" ? undefined : poolOf(url, { max: way === "the reserve" ? 1 : 5 });
  const storage = new PostgresStorage(pool ?? url, { clock });
  onTestFinished(() => storage.close());
  await storage.setup();
  if (way === "the reserve") {
    const held = await pool!.connect();
    onTestFinished(() => held.release());
  }
  const other = new pg.Client(url);
  await other.connect();
  onTestFinished(() => other.end());
  const lock = () => other.query("BEGIN; LOCK TABLE sluice.jobs IN ACCESS EXCLUSIVE MODE");
  /** Does a session wait for the lock? */
  const isWaitedFor = async () => {
    const { rowCount } = await other.query(
      "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'sluice.jobs'::regclass",
    );
    return rowCount! > 0;
  };
  return { url, clock, storage, lock, isWaitedFor, letGo: () => other.query("COMMIT") };
}

const keyOf = (key: string) => ({ key, fingerprint: "f", ttlMs: 60_000, onDuplicate: "reject" }) as const;

describe("a storage that is closed while a call is under way", () => {
  it.each(WAYS)("close waits for the call, and leaves no timer (%s)", async (way) => {
    const { clock, storage, lock, isWaitedFor, letGo } = await lockable(way);
    await lock();
    const found = storage.find(["missing"]);
    await until(isWaitedFor, "the call to wait");
    let isClosed = false;
    const closed = storage.close().then(() => (isClosed = true));
    await expect(storage.find(["missing"])).rejects.toThrow(/the storage is closed/);
    expect(await isWaitedFor()).toBe(true);
    expect(isClosed).toBe(false);
    await letGo();
    await closed;
    expect(clock.out).toBe(0);
    expect(await found).toEqual([undefined]);
  });

  it.each(WAYS)("close does not wait for ever: the call fails (%s)", async (way) => {
    const { clock, storage, lock, isWaitedFor } = await lockable(way);
    await lock();
    const failed = storage.find(["missing"]).catch((error: unknown) => error);
    await until(isWaitedFor, "the call to wait");
    await storage.close();
    expect(clock.out).toBe(0);
    const error = await failed;
    expect(error).toBeInstanceOf(StorageError);
    expect((error as Error).message).toMatch(/the storage (is|was) closed/);
  });

  it("close waits for calls of several steps, and for the tables", async () => {
    const url = await temporaryDatabase();
    const setup = new PostgresStorage(url);
    await Promise.all([setup.setup(), setup.close()]);
    const storage = new PostgresStorage(url, { migrate: false });
    await Promise.all([storage.limits.define([rule("k", { concurrency: 1 })]), storage.close()]);
    const after = new PostgresStorage(url, { migrate: false });
    const changed = after.limits.change("k", { paused: true });
    await Promise.all([changed, after.close()]);
    const last = new PostgresStorage(url, { migrate: false });
    onTestFinished(() => last.close());
    expect(await last.limits.read({ name: "k", group: null })).toMatchObject([{ rule: { paused: true } }]);
  });

  it("close waits until other processes are notified of added jobs", async () => {
    const { url, clock, storage, lock, isWaitedFor, letGo } = await lockable("a pool of the user's");
    const there = new PostgresStorage(url);
    onTestFinished(() => there.close());
    const queues = ["a", "b", "c"];
    const woken = new Set<string>();
    for (const queue of queues) there.subscribe({ queue, wake: () => woken.add(queue) });
    // A storage whose call was answered is known to listen.
    await there.find(["missing"]);
    await lock();
    // Each call is sent by itself, so that the first one notifies when the others are done.
    const added = queues.map((queue) => storage.add([newJob({ queue, idempotency: keyOf(queue) })]));
    await until(isWaitedFor, "the calls to wait");
    const closed = storage.close();
    woken.clear();
    await letGo();
    await Promise.all([...added, closed]);
    expect(clock.out).toBe(0);
    await until(() => woken.size === queues.length, "the notifications of all queues", 2_000);
  });
});

describe("a storage that is closed while it connects", () => {
  it("close leaves no timer and no connection", async () => {
    const { url, sockets } = await silentServer();
    const clock = new WatchedClock();
    const storage = new PostgresStorage(url, { clock });
    const failed = storage.find(["missing"]).catch((error: unknown) => error);
    await until(() => sockets.size > 0, "a connection");
    await storage.close();
    expect(clock.out).toBe(0);
    await until(() => sockets.size === 0, "no connection", 1_000);
    expect(await failed).toBeInstanceOf(StorageError);
  });

  it.each(["to listen", "a reserve"])("close leaves no timer where the storage has a pool (%s)", async (what) => {
    let begun = 0;
    const Stuck = class extends pg.Client {
      override connect(): Promise<pg.Client> {
        begun += 1;
        return new Promise(() => {});
      }
    };
    const pool = poolOf(await temporaryDatabase(), { max: 1 });
    const clock = new WatchedClock();
    const storage = new PostgresStorage(pool, { clock });
    await storage.setup();
    Object.assign(pool, { Client: Stuck });
    const held = await pool.connect();
    onTestFinished(() => held.release());
    const failed = what === "a reserve" ? storage.find(["missing"]).catch((error: unknown) => error) : undefined;
    if (what === "to listen") storage.subscribe({ queue: "q", wake: () => {} });
    await until(() => begun > 0, "a connection to be begun");
    await storage.close();
    expect(clock.out).toBe(0);
    if (failed !== undefined) expect(await failed).toBeInstanceOf(StorageError);
  });

  it("a storage that was closed before it began to connect does not connect", async () => {
    const { url, sockets } = await silentServer();
    const clock = new WatchedClock();
    const storage = new PostgresStorage(url, { clock });
    storage.subscribe({ queue: "q", wake: () => {} });
    await storage.close();
    expect(clock.out).toBe(0);
    await until(() => sockets.size === 0, "no connection", 1_000);
  });
});

describe("a storage that is closed when its server does not answer any more", () => {
  it("close ends the connections of the storage, also idle ones", async () => {
    const { url, fallSilent } = await mutableServer(await temporaryDatabase());
    const connects = vi.spyOn(Socket.prototype, "connect");
    onTestFinished(() => connects.mockRestore());
    const clock = new WatchedClock();
    const storage = new PostgresStorage(url, { clock });
    storage.subscribe({ queue: "q", wake: () => {} });
    await Promise.all(Array.from({ length: 8 }, () => storage.find(["missing"])));
    const sockets = (connects.mock.contexts as Socket[]).filter(
      ({ remotePort }) => remotePort === Number(new URL(url).port),
    );
    expect(sockets.filter(({ destroyed }) => !destroyed).length).toBeGreaterThan(2);
    fallSilent();
    await storage.close();
    expect(sockets.filter(({ destroyed }) => !destroyed)).toEqual([]);
    expect(clock.out).toBe(0);
  });
});
