import pg from "pg";
import { describe, expect, onTestFinished, test } from "vitest";
import { anything } from "../jobs.ts";
import { until } from "./office.ts";
import { once, temporaryDatabase } from "./server.ts";
import { emptyStorages, fakeTime, newJob } from "./support.ts";

const limits = [{ key: "l", max: 5, windowMs: 10_000 }];

describe("a server whose clock is set", () => {
  const open = emptyStorages();

  /** When jobs started, by a clock that is not set, while that of the server is set as often as there are steps. */
  async function starts(steps: readonly number[], rounds: number): Promise<number[]> {
    const { storage, clock, close } = await open();
    await storage.setup();
    await storage.add(Array.from({ length: 200 }, () => newJob()));
    const at: number[] = [];
    for (const step of steps) {
      clock.stepWall(step);
      for (let t = 0; t < rounds; t++) {
        const { jobs } = await storage.claim(anything({ max: 100, limits }));
        for (const _ of jobs) at.push(clock.now());
        await clock.advance(500);
      }
    }
    await storage.close();
    await close?.();
    return at;
  }

  test("set back: no window is exceeded, and no job waits longer than a window", async () => {
    const at = await starts([0, -30_000, -30_000, -3_600_000], 60);
    const gaps = at.slice(5).map((start, i) => start - at[i]!);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(10_000);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(20_500);
    expect(at.length).toBeGreaterThanOrEqual(4 * 15 - 15);
  });

  test("set back and forth, by less than was seen: no window is exceeded", async () => {
    const at = await starts([0, -200, -150, -99, -1, -500], 45);
    const gaps = at.slice(5).map((start, i) => start - at[i]!);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(10_000 - 101);
    expect(at.length).toBeGreaterThanOrEqual(50);
  });

  test("set back: leases last longer by no more than that, and due times stay in order", async () => {
    const { storage, clock, close } = await open();
    await storage.setup();
    await storage.add([newJob({ id: "a" }), newJob({ id: "later", due: { inMs: 5_000 } })]);
    await storage.claim(anything({ max: 1, leaseMs: 30_000 }));
    clock.stepWall(-60_000);
    expect(await storage.sweep()).toMatchObject({ stalled: 0 });
    await clock.advance(5_000);
    expect((await storage.claim(anything())).jobs).toMatchObject([{ id: "later" }]);
    await clock.advance(25_000);
    expect(await storage.sweep()).toMatchObject({ stalled: 1 });
    await storage.close();
    await close?.();
  });

  test("set forward: leases and due times follow, and a stale worker writes nothing", async () => {
    const { storage, clock, close } = await open();
    await storage.setup();
    await storage.add([newJob({ id: "j" })]);
    const [job] = (await storage.claim(anything())).jobs;
    clock.stepWall(120_000);
    expect(await storage.sweep()).toMatchObject({ stalled: 1 });
    const [again] = (await storage.claim(anything({ worker: "other" }))).jobs;
    expect(await storage.settle([{ id: "j", token: job!.token, to: "completed", result: null }])).toEqual(["j"]);
    expect(await storage.settle([{ id: "j", token: again!.token, to: "completed", result: null }])).toEqual([]);
    await storage.close();
    await close?.();
  });
});

test("time that passes while a step waits to record that the clock was set back does not count as another step back", async () => {
  const url = await temporaryDatabase();
  const admin = await fakeTime(url);
  const [first, second] = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })];
  await Promise.all([first.connect(), second.connect()]);
  onTestFinished(async () => {
    await Promise.all([first.end(), second.end(), admin.end()]);
  });
  const setClock = (wall: number) => admin.query("UPDATE test_clock SET wall = $1", [wall]);
  const moment = async (client: pg.Client) =>
    (await client.query<{ moment: number }>("SELECT sluice.moment()")).rows[0]!.moment;
  await setClock(100_000);
  expect(await moment(first)).toBe(100_000);
  await setClock(90_000);
  await first.query("BEGIN");
  expect(await moment(first)).toBe(100_000);
  const recorded = moment(second);
  const waiting = "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
  await until(async () => (await once(url, waiting)).length > 0, 5_000, "the second waits");
  await setClock(91_500);
  expect(await moment(first)).toBe(101_500);
  await first.query("COMMIT");
  expect(await recorded).toBe(101_500);
  expect(await once(url, "SELECT skew FROM sluice.meta")).toEqual([{ skew: 10_000 }]);
});
