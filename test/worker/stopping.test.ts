import { expect, it } from "vitest";
import { Worker } from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { open, work } from "./support.ts";

it("stop() does not wait for a storage that does not answer", async () => {
  for (const silent of ["setup", "claim", "settle"] as const) {
    const house = open();
    const storage = faultyStorage(house.storage, ({ member }) => (member === silent ? { kind: "never" } : undefined));
    const { worker } = work(house, () => new Promise<never>(() => {}), { storage });
    await house.queue.add("t", null);
    await house.clock.advance(100);
    let stopped = false;
    void worker.stop({ timeout: 1_000 }).then(() => (stopped = true));
    await house.clock.advance(10_000);
    expect([silent, stopped]).toEqual([silent, true]);
  }
});

it("a worker that stops during a sweep sweeps no more, and leaves no timer", async () => {
  const house = open();
  let sweeps = 0;
  house.storage.sweep = () => {
    sweeps += 1;
    return new Promise<never>(() => {});
  };
  const { worker, errors } = work(house, async () => {}, { lease: "3s" });
  await house.clock.advance(1_000);
  await worker.stop();
  expect([sweeps, house.clock.timers]).toEqual([1, 0]);
  await house.clock.advance(60_000);
  expect([sweeps, errors]).toEqual([1, []]);
});

it("stop() resolves onIdle(), and a stopped worker cannot be started again", async () => {
  const house = open();
  const { worker } = work(house, async () => {}, { autostart: false });
  const idle = worker.onIdle();
  await worker.stop();
  await idle;
  await expect(worker.start()).rejects.toThrow(/create a new one/);
});

it("stop() succeeds though the storage is closed", async () => {
  const house = open();
  const { worker, errors } = work(house, async () => {});
  await Promise.resolve();
  await house.storage.close();
  await house.clock.advance(5_000);
  expect(errors.length).toBeGreaterThan(0);
  const stopped = worker.stop();
  await house.clock.advance(10_000);
  await stopped;
});

it("a worker that has stopped leaves no subscription and no timer, whenever the storage answers", async () => {
  const house = open();
  const storage = faultyStorage(
    house.storage,
    ({ member }) => (member === "setup" ? { kind: "delay-answer", ms: 20_000 } : undefined),
    { clock: house.clock },
  );
  let subscribed = 0;
  const subscribe = house.storage.subscribe.bind(house.storage);
  house.storage.subscribe = (subscriber) => {
    subscribed += 1;
    return subscribe(subscriber);
  };
  const { worker } = work(house, async () => {}, { storage });
  await house.clock.advance(10);
  const stopped = worker.stop({ timeout: 0 });
  await house.clock.advance(5_000);
  await stopped;
  await house.clock.advance(30_000);
  expect([subscribed, house.clock.timers]).toEqual([0, 0]);
});

it("a worker leaves no timer if the time to stop is up while it publishes that it has stopped", async () => {
  const house = open();
  const publish = Promise.withResolvers<void>();
  const storage = new Proxy(house.storage, {
    get(target, key) {
      if (key === "publish") return ({ event }: { event: string }) => event === "worker-stopped" && publish.promise;
      const member: unknown = Reflect.get(target, key);
      return typeof member === "function" ? (member as () => unknown).bind(target) : member;
    },
  });
  const worker = new Worker("q", async () => {}, { storage, clock: house.clock });
  await house.clock.advance(10);
  const stopped = worker.stop({ timeout: 100 });
  await house.clock.advance(100);
  publish.resolve();
  await stopped;
  expect(house.clock.timers).toBe(0);
});
