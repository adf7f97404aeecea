import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { once, temporaryDatabase } from "./server.ts";
import { ServerClock } from "./server-clock.ts";
import { Traffic } from "./traffic.ts";

/** A pool in a database of its own whose time is moved by hand. */
async function open(): Promise<{ readonly pool: pg.Pool; readonly clock: ServerClock; readonly url: string }> {
  const url = await temporaryDatabase();
  await once(url, "CREATE TABLE clock AS SELECT 0::float8 AS wall");
  const traffic = new Traffic();
  const clock = new ServerClock(traffic, (wall) => once(url, "UPDATE clock SET wall = $1", [wall]));
  const pool = new pg.Pool({ connectionString: url, Client: traffic.Client });
  onTestFinished(() => pool.end());
  return { pool, clock, url };
}

const wallOf = async (pool: pg.Pool) => (await pool.query<{ wall: number }>("SELECT wall FROM clock")).rows[0]!.wall;

test("the server has the time of the test before any other statement", async () => {
  const { pool, clock } = await open();
  expect(await wallOf(pool)).toBe(clock.wall());
  await clock.advance(0.1);
  expect(await Promise.all([wallOf(pool), wallOf(pool)])).toEqual([clock.wall(), clock.wall()]);
  clock.stepWall(-5_000);
  expect(await wallOf(pool)).toBe(clock.wall());
});

test("timers that come due find the server at their time, and their statements are done when time has moved on", async () => {
  const { pool, clock } = await open();
  const seen: number[] = [];
  const begin = clock.wall();
  const look = async () => {
    await pool.query("SELECT pg_sleep(0.02)");
    seen.push((await wallOf(pool)) - begin);
    if (seen.length < 3) clock.after(100, () => void look());
  };
  clock.after(100, () => void look());
  await clock.advance(1_000);
  expect(seen).toEqual([100, 200, 300]);
  expect(clock.wall() - begin).toBe(1_000);
});

test("notifications are received when time has moved on, and what their handlers began is done", async () => {
  const { pool, clock } = await open();
  const client = await pool.connect();
  const payloads: string[] = [];
  client.on("notification", ({ payload }) => {
    void pool.query("SELECT pg_sleep(0.01)").then(() => payloads.push(payload ?? ""));
  });
  await client.query("LISTEN channel");
  for (let i = 0; i < 20; i++) {
    void pool.query("SELECT pg_notify('channel', $1)", [String(i)]);
    await clock.advance(0);
    expect(payloads).toHaveLength(i + 1);
  }
  client.release();
});
