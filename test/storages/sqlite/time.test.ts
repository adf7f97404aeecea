import { afterEach, describe, expect, test, vi } from "vitest";
import { type Clock, systemClock } from "../../../src/core/clock.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { type ClockState, FineWallClock, StorageClock } from "../../../src/storages/sqlite/time.ts";
import { MACHINE, machineClock, type MachineClock } from "../../../src/storages/sqlite/machine.ts";
import { FakeClock } from "../../../src/testing/index.ts";
import { claimOf, newJob, rule, temporaryDatabase } from "./support.ts";

/** A computer's clocks: the wall clock in whole milliseconds, the monotonic one from anywhere. */
class ComputerClock implements Clock {
  real = 1_900_000_000_000.7;
  step = 0;
  now = () => this.real - 1_899_999_000_000.123;
  wall = () => Math.floor(this.real + this.step);
  after = () => () => {};
}

const UNKNOWN: ClockState = { last: 0, skew: 0, sequence: 0, repairs: 0, boot: null, awake: 0, asleep: 0 };

describe("the fine wall clock", () => {
  test("the fine wall clock comes near the real time within few readings, and is never fast", () => {
    const clock = new ComputerClock();
    const fine = new FineWallClock(clock);
    let before = 0;
    for (let i = 0; i < 1_000; i++) {
      clock.real += 0.37;
      const now = fine.now();
      expect(now).toBeLessThanOrEqual(clock.real + 0.001);
      expect(now).toBeGreaterThan(clock.real - (i < 50 ? 1 : 0.1));
      expect(now).toBeGreaterThanOrEqual(before);
      before = now;
    }
  });

  test("the fine wall clock follows a step of the wall clock", () => {
    const clock = new ComputerClock();
    const fine = new FineWallClock(clock);
    fine.now();
    for (const step of [60_000, -60_000]) {
      clock.step += step;
      expect(Math.abs(fine.now() - clock.wall())).toBeLessThanOrEqual(1);
    }
  });

  test("the fine wall clock is the wall clock itself where that has fractions, or is moved by hand", async () => {
    const clock = new FakeClock();
    const fine = new FineWallClock(clock);
    for (const ms of [0, 1, 0.25, 0.75, 1_000, 0.1, 12.9]) {
      await clock.advance(ms);
      expect(fine.now()).toBe(clock.wall());
    }
  });
});

describe("the clock of a storage", () => {
  test("the clock never goes back, and keeps ages when the wall clock does", () => {
    const clock = new ComputerClock();
    const time = new StorageClock(clock);
    let state: ClockState = UNKNOWN;
    const first = time.read(state);
    state = first;
    clock.real += 1_000;
    clock.step = -30_000;
    const second = time.read(state);
    expect(second.now).toBeGreaterThanOrEqual(first.now);
    clock.real += 5_000;
    const third = time.read(second);
    expect(third.now - second.now).toBeCloseTo(5_000, 0);
    // Forward again: the skew is used up, and nothing jumps.
    clock.step = 0;
    clock.real += 10;
    const fourth = time.read(third);
    expect(fourth.now - third.now).toBeLessThan(300);
    expect(fourth.skew).toBeLessThan(1_500);
  });

  test("the clock notices a step back that is shorter than the time since its last reading", () => {
    const clock = new ComputerClock();
    const time = new StorageClock(clock);
    const first = time.read(UNKNOWN);
    clock.real += 60_000;
    clock.step = -30_000;
    const second = time.read(first);
    expect(second.now - first.now).toBeCloseTo(60_000, 0);
    expect(second.skew).toBeCloseTo(30_000, -1);
  });

  test("the clock does not drift when processes differ by a fraction", () => {
    const clock = new ComputerClock();
    let state: ClockState = UNKNOWN;
    for (let i = 0; i < 500; i++) {
      clock.real += 0.9;
      state = new StorageClock(clock).read(state);
    }
    expect(state.skew).toBe(0);
  });
});

describe("a process that is held up between two readings of its clocks", () => {
  /** Three processes read the time in turn, the third one when it has just been started. Every reading of a clock is counted. */
  function readInTurns(heldUp: (call: number) => number): { skews: number[]; calls: number; fastBy: number } {
    let real = 1_000_000.3;
    let calls = 0;
    const call = (): number => {
      const at = (real += 0.01);
      real += heldUp(calls++);
      return at;
    };
    Object.assign(systemClock, { now: () => call() - 900_000, wall: () => Math.floor(WALL + call()) });
    const machine = { boot: "first", awake: call, asleep: () => Math.floor(call() / 10) * 10 - call() };
    const start = () => new StorageClock(systemClock, machine);
    const processes = [start(), start()];
    let state: ClockState = { ...UNKNOWN, last: WALL + real };
    let fastBy = 0;
    const skews: number[] = [];
    for (const [pause, which] of [0, 3, 260, 2, 900, 1, 300, 5, 5, 400].map((ms, i) => [ms, i % 3] as const)) {
      real += pause;
      const process = which === 2 ? start() : processes[which]!;
      const { now, last, ...time } = process.read(state);
      state = { ...time, last: Math.max(last, now), sequence: time.sequence + 1 };
      process.granted(state.sequence);
      skews.push(time.skew);
      fastBy = Math.max(fastBy, now - (WALL + real));
    }
    return { skews, calls, fastBy };
  }
  const WALL = 1_900_000_000_000;
  const original = { ...systemClock };
  afterEach(() => void Object.assign(systemClock, original));

  test.each([60, 120, 300, 5_000])(
    "a process that is held up once, by %i ms, does not conclude that the wall clock was set",
    (ms) => {
      const { calls } = readInTurns(() => 0);
      for (let at = 0; at < calls; at++) {
        const { skews, fastBy } = readInTurns((call) => (call === at ? ms : 0));
        expect({ at, fastBy: fastBy > 0.1, skews: skews.filter((skew) => Math.abs(skew) > 1) }).toEqual({
          at,
          fastBy: false,
          skews: [],
        });
      }
    },
  );

  test("a process that is held up again and again has no fast clock", () => {
    for (let seed = 1; seed <= 300; seed++) {
      let random = seed;
      const { fastBy, skews } = readInTurns(() => {
        random = (random * 1_103_515_245 + 12_345) % 2 ** 31;
        return random % 20 === 0 ? random % 1_000 : 0;
      });
      expect(fastBy).toBeLessThan(0.1);
      expect(Math.max(...skews)).toBeLessThan(1);
    }
  });
});

describe("a wall clock that is set", () => {
  const limits = [{ key: "l", max: 5, windowMs: 10_000 }];

  async function starts(steps: readonly number[]): Promise<number[]> {
    const clock = new FakeClock();
    const path = temporaryDatabase();
    let storage = new SqliteStorage(path, { clock });
    await storage.add(Array.from({ length: 200 }, () => newJob()));
    const at: number[] = [];
    for (const [i, step] of steps.entries()) {
      clock.stepWall(step);
      // A process that starts after the step has nothing to compare with but the database.
      if (i % 2 === 1) {
        await storage.close();
        storage = new SqliteStorage(path, { clock });
      }
      for (let t = 0; t < 60; t++) {
        const { jobs } = await storage.claim(claimOf({ max: 100, limits }));
        for (const _ of jobs) at.push(clock.now());
        await clock.advance(500);
      }
    }
    await storage.close();
    return at;
  }

  test("set back by 30 s: no window is exceeded, and no job waits longer than a window", async () => {
    const at = await starts([0, -30_000, -30_000, -3_600_000]);
    for (const [i, start] of at.entries()) if (i >= 5) expect(start - at[i - 5]!).toBeGreaterThanOrEqual(10_000);
    for (const [i, start] of at.entries()) if (i >= 5) expect(start - at[i - 5]!).toBeLessThanOrEqual(20_500);
    expect(at.length).toBeGreaterThanOrEqual(4 * 15 - 15);
  });

  test("set back and forth in one process: no window is exceeded", async () => {
    const clock = new FakeClock();
    const storage = new SqliteStorage(":memory:", { clock });
    await storage.add(Array.from({ length: 100 }, () => newJob()));
    const at: number[] = [];
    for (const step of [0, -30_000, 30_000, -5_000, 5_000]) {
      clock.stepWall(step);
      for (let t = 0; t < 40; t++) {
        const { jobs } = await storage.claim(claimOf({ max: 100, limits }));
        for (const _ of jobs) at.push(clock.now());
        await clock.advance(500);
      }
    }
    for (const [i, start] of at.entries()) if (i >= 5) expect(start - at[i - 5]!).toBeGreaterThanOrEqual(9_750);
    expect(at.length).toBeGreaterThanOrEqual(45);
    await storage.close();
  });

  test("set forward: leases and due times follow, and a stale worker writes nothing", async () => {
    const clock = new FakeClock();
    const storage = new SqliteStorage(":memory:", { clock });
    await storage.add([newJob({ id: "j" })]);
    const [job] = (await storage.claim(claimOf())).jobs;
    clock.stepWall(120_000);
    expect(await storage.sweep()).toMatchObject({ stalled: 1 });
    const [again] = (await storage.claim(claimOf({ worker: "other" }))).jobs;
    expect(await storage.settle([{ id: "j", token: job!.token, to: "completed", result: null }])).toEqual(["j"]);
    expect(await storage.settle([{ id: "j", token: again!.token, to: "completed", result: null }])).toEqual([]);
    await storage.close();
  });
});

describe("a wall clock that is set back by too little to be noticed at once", () => {
  test.each([4, 6, 50, 200, 240, 400, 5_000])(
    "set back by %i ms: no window is exceeded, over two processes",
    async (by) => {
      const path = temporaryDatabase();
      let t = 0;
      let set = 0;
      const clock = () => ({ now: () => t, wall: () => Date.UTC(2030, 0, 1) + set + t, after: () => () => {} });
      const [a, b] = [new SqliteStorage(path, { clock: clock() }), new SqliteStorage(path, { clock: clock() })];
      const ask = { maxExecutions: 1, windowMs: 1_000, grantTtl: 2_000 };
      const calls: number[] = [];
      const attempt = async (storage: SqliteStorage) => {
        const { granted, token } = await storage.rates.tryRecordExecution("k", ask);
        if (!granted) return;
        calls.push(t);
        await storage.rates.confirmExecution("k", [{ token: token!, calledInMs: 0.1 }]);
      };
      const look = (storage: SqliteStorage) => storage.confirm([]);
      t = 1_000;
      await look(b);
      t += by - 1;
      await look(a);
      t += 1;
      set -= by;
      t += 6;
      await attempt(b);
      t += 1;
      await look(a);
      for (const end = t + 12_000; t < end; t += 3) await attempt(t % 2 === 0 ? a : b);
      for (let i = 1; i < calls.length; i++) expect(calls[i]! - calls[i - 1]!).toBeGreaterThanOrEqual(1_000);
      expect(calls.length).toBeGreaterThan(5);
      await a.close();
      await b.close();
    },
  );
});

describe("clocks that stand still", () => {
  test.each([
    ["alone", () => Date.UTC(2030, 0, 1)],
    ["and has fractions", () => Date.UTC(2030, 0, 1) + 0.5],
  ])("a wall clock that stands still %s does not keep a storage from working", async (_, now) => {
    vi.spyOn(Date, "now").mockImplementation(now);
    try {
      const storage = new SqliteStorage(":memory:");
      await storage.add([newJob()]);
      expect((await storage.claim(claimOf())).jobs).toHaveLength(1);
      await storage.close();
    } finally {
      vi.restoreAllMocks();
    }
  });

  test("clocks that stand still do not keep a storage from working, as in tests with fake timers", async () => {
    vi.useFakeTimers();
    try {
      const storage = new SqliteStorage(":memory:");
      await storage.add([newJob()]);
      expect((await storage.claim(claimOf())).jobs).toHaveLength(1);
      await storage.close();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("a wall clock that is set while the clock of the computer is right", () => {
  const DAY_MS = 86_400_000;

  /** The clocks of one process: its wall clock can be set by itself, the others belong to the computer. */
  class ProcessClock extends FakeClock {
    readonly [MACHINE]: MachineClock;
    readonly #computer: FakeClock;
    #step = 0;

    constructor(computer: FakeClock, asleep = () => 0, boot = "first") {
      super();
      this.#computer = computer;
      this[MACHINE] = { boot, awake: () => computer.now(), asleep };
    }

    override now(): number {
      return this.#computer.now();
    }

    override wall(): number {
      return this.#computer.wall() + this.#step;
    }

    override stepWall(ms: number): void {
      this.#step += ms;
    }
  }

  test("set forward: no lease expires, no window opens, no delay ends, and instants of users follow", async () => {
    const computer = new FakeClock();
    const clock = new ProcessClock(computer);
    const storage = new SqliteStorage(":memory:", { clock });
    const limits = [{ key: "l", max: 1, windowMs: 10_000 }];
    const tomorrow = clock.wall() + DAY_MS;
    await storage.add([newJob({ id: "held" }), newJob({ id: "next" })]);
    await storage.add([
      newJob({ id: "delayed", due: { inMs: 60_000 } }),
      newJob({ id: "given", due: { at: tomorrow }, type: "given" }),
    ]);
    expect((await storage.claim(claimOf({ max: 1, limits }))).jobs).toMatchObject([{ id: "held" }]);
    clock.stepWall(2 * DAY_MS);
    expect(await storage.sweep()).toMatchObject({ stalled: 0 });
    expect(await storage.claim(claimOf({ types: ["t"], limits }))).toMatchObject({ jobs: [], nextInMs: 10_000 });
    // By the wall clock it is the day after tomorrow: no process can know whether that is true.
    expect((await storage.claim(claimOf({ types: ["given"] }))).jobs).toMatchObject([{ id: "given", dueAt: tomorrow }]);
    clock.stepWall(-2 * DAY_MS);
    await computer.advance(10_000);
    expect((await storage.claim(claimOf({ types: ["t"], limits }))).jobs).toMatchObject([{ id: "next" }]);
    expect((await storage.find(["delayed"]))[0]).toMatchObject({ state: "scheduled", dueAt: clock.wall() + 50_000 });
    await storage.close();
  });

  test("set by one of two processes, again and again: no window is exceeded, and the time does not run away", async () => {
    const computer = new FakeClock();
    const path = temporaryDatabase();
    const [wrong, right] = [new ProcessClock(computer), new ProcessClock(computer)];
    const storages = [new SqliteStorage(path, { clock: wrong }), new SqliteStorage(path, { clock: right })];
    await storages[1]!.add(Array.from({ length: 200 }, () => newJob()));
    await storages[1]!.add([newJob({ id: "later", due: { inMs: 30_000 } })]);
    wrong.stepWall(2 * DAY_MS);
    const limits = [{ key: "l", max: 5, windowMs: 10_000 }];
    const at: number[] = [];
    for (let t = 0; t < 120; t++) {
      const { jobs } = await storages[t % 2]!.claim(claimOf({ max: 100, types: ["t"], limits }));
      for (const _ of jobs) at.push(computer.now());
      if (t === 59) expect((await storages[1]!.find(["later"]))[0]).toMatchObject({ state: "scheduled" });
      await computer.advance(500);
    }
    for (const [i, start] of at.entries()) if (i >= 5) expect(start - at[i - 5]!).toBeGreaterThanOrEqual(10_000);
    expect(at.length).toBe(30);
    expect((await storages[1]!.find(["later"]))[0]!.state).not.toBe("scheduled");
    for (const storage of storages) await storage.close();
  });

  test("not set: a sweep does not move the time on for other processes", async () => {
    const computer = new FakeClock();
    const storage = new SqliteStorage(":memory:", { clock: new ProcessClock(computer) });
    await storage.limits.define([rule("tenant", { max: 1, windowMs: 5_000 }, { byGroup: true })]);
    for (let i = 0; i < 10; i++) {
      await storage.add([newJob({ group: `g${i}` })]);
      expect((await storage.claim(claimOf())).jobs).toHaveLength(1);
      await computer.advance(200);
    }
    await computer.advance(3_000);
    await storage.add([newJob({ id: "later", due: { inMs: 3_100 } })]);
    // One group after the other is forgotten, and nothing else happens.
    for (let i = 0; i < 15; i++) {
      while ((await storage.sweep()).more);
      await computer.advance(200);
    }
    expect(await storage.claim(claimOf())).toMatchObject({ jobs: [], nextInMs: 100 });
    await storage.close();
  });

  test("a computer that slept has let time pass", async () => {
    const computer = new FakeClock();
    let slept = 0;
    const clock = new ProcessClock(computer, () => slept);
    const storage = new SqliteStorage(":memory:", { clock });
    await storage.add([newJob({ id: "j", due: { inMs: 60_000 } })]);
    clock.stepWall(120_000);
    slept = 120_000;
    expect((await storage.claim(claimOf())).jobs).toMatchObject([{ id: "j" }]);
    await storage.close();
  });

  test("after the computer was started anew the wall clock decides how much time has passed", async () => {
    const computer = new FakeClock();
    const path = temporaryDatabase();
    const before = new SqliteStorage(path, { clock: new ProcessClock(computer) });
    await before.add([newJob({ id: "j", due: { inMs: 60_000 } })]);
    await before.close();
    const clock = new ProcessClock(computer, () => 0, "second");
    clock.stepWall(120_000);
    const storage = new SqliteStorage(path, { clock });
    expect((await storage.claim(claimOf())).jobs).toMatchObject([{ id: "j" }]);
    await storage.close();
  });

  test("a computer that starts in the past and is set right keeps to an instant that was given in between", async () => {
    const computer = new FakeClock();
    const path = temporaryDatabase();
    const before = new SqliteStorage(path, { clock: new ProcessClock(computer) });
    await before.add([newJob({ id: "before" })]);
    await before.close();
    const clock = new ProcessClock(computer, () => 0, "second");
    clock.stepWall(-3_600_000);
    const given = computer.wall() + 60_000;
    const [first, second] = [new SqliteStorage(path, { clock }), new SqliteStorage(path, { clock })];
    await first.add([newJob({ id: "given", type: "given", due: { at: given } })]);
    await first.close();
    clock.stepWall(3_600_000);
    await computer.advance(60_000);
    expect((await second.claim(claimOf({ types: ["given"] }))).jobs).toMatchObject([{ id: "given", dueAt: given }]);
    await second.close();
  });

  test("fake timers of a test runner move the time on", async () => {
    vi.useFakeTimers();
    try {
      const storage = new SqliteStorage(":memory:");
      await storage.add([newJob({ id: "j", due: { inMs: 3_600_000 } })]);
      expect((await storage.claim(claimOf())).jobs).toEqual([]);
      vi.advanceTimersByTime(3_600_001);
      expect((await storage.claim(claimOf())).jobs).toMatchObject([{ id: "j" }]);
      await storage.close();
    } finally {
      vi.useRealTimers();
    }
  });
});

describe("the clock of the computer", () => {
  const bootWith = (offsets: string | undefined) =>
    machineClock((path) => (path.endsWith("boot_id") ? "1b4e28ba\n" : offsets))?.boot;

  test("the clock is another one in a container whose monotonic clock is another one", () => {
    const none = "monotonic           0         0\nboottime            0         0\n";
    expect(bootWith(undefined)).toBe("1b4e28ba");
    expect(bootWith(none)).toBe("1b4e28ba");
    expect(bootWith(none.replace(/0(?=\s+0\nboot)/, "864000"))).not.toBe("1b4e28ba");
  });

  test("there is no clock where the system does not name its start", () => {
    expect(machineClock(() => undefined)).toBeUndefined();
    expect(machineClock(() => "")).toBeUndefined();
  });
});
