import { hostname } from "node:os";
import { describe, expect, it } from "vitest";
import { defineLimits, Job, JobQueueServer, type JobEvents } from "../../src/index.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { type House, HOUSES, many, work } from "./support.ts";

const MINUTE = 60_000;
const counted = (house: House) => faultyStorage(house.storage, () => {}, { clock: house.clock });

describe.each(HOUSES)("$name", ({ open }) => {
  describe("the registry of workers", () => {
    it("the registry shows where an idle worker runs, what it handles, and which limits it declares", async () => {
      const house = open();
      const limits = defineLimits({ api: { max: 9, per: "1s", types: ["a"] } });
      const { worker } = work(house, { a: () => {}, b: () => {} }, { concurrency: 4, limits });
      const other = work(house, () => {}, { queue: "other" });
      const began = new Date(house.clock.wall());
      await house.clock.advance(1_000);
      expect(await house.queue.workers()).toEqual([
        {
          id: worker.id,
          queue: "q",
          host: hostname(),
          pid: process.pid,
          types: ["a", "b"],
          moreTypes: 0,
          concurrency: 4,
          limits: ["api"],
          moreLimits: 0,
          since: began,
          lastSeen: began,
        },
      ]);
      expect(await house.storage.workers("other")).toMatchObject([{ id: other.worker.id, types: null, limits: [] }]);
      await Promise.all([worker.stop(), other.worker.stop()]);
      expect(await house.storage.workers()).toEqual([]);
    });

    it("the registry lists up to a thousand types of a worker, and the number of the others", async () => {
      const house = open();
      const handlers = Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`t${i}`, () => {}]));
      const { worker } = work(house, handlers);
      const job = await house.queue.add("t9999", null, { delay: "1h" });
      await house.clock.advance(0);
      const [shown] = await house.queue.workers();
      expect([shown!.types!.length, shown!.moreTypes]).toEqual([1_000, 9_000]);
      expect((await job.explain()).blockers.map(({ kind }) => kind)).toEqual(["delay"]);
      await worker.stop();
    });

    it("one heartbeat every 15 s keeps all workers of a process registered", async () => {
      const house = open();
      const storage = counted(house);
      const workers = [1, 2, 3].map(() => work(house, () => {}, { storage }).worker);
      await house.clock.advance(100);
      const before = storage.calls.length;
      await house.clock.advance(10 * MINUTE);
      const registered = storage.calls.slice(before).filter(({ member }) => member === "register");
      expect(registered.length).toBeLessThanOrEqual(40);
      expect((await house.queue.workers()).map(({ id }) => id).toSorted()).toEqual(
        workers.map(({ id }) => id).toSorted(),
      );
      for (const { lastSeen } of await house.queue.workers()) {
        expect(house.clock.wall() - lastSeen.getTime()).toBeLessThanOrEqual(15_000);
      }
      await Promise.all(workers.map((worker) => worker.stop()));
    });

    it("a heartbeat is not lost because other workers start and stop", async () => {
      const house = open();
      const { worker } = work(house, () => {});
      for (let i = 0; i < 30; i++) {
        const short = work(house, () => {}).worker;
        await house.clock.advance(5_000);
        await short.stop();
        expect((await house.queue.workers()).map(({ id }) => id)).toEqual([worker.id]);
      }
      await worker.stop();
    });

    it("a registry that does not answer holds up no jobs, and stop() only briefly", async () => {
      const house = open();
      const storage = faultyStorage(
        house.storage,
        ({ member }) => (member === "register" ? { kind: "never" } : undefined),
        { clock: house.clock },
      );
      const ran: number[] = [];
      const { worker, errors } = work(house, () => void ran.push(house.clock.now()), { storage });
      await house.queue.add("t", null);
      await house.clock.advance(0);
      expect(ran).toHaveLength(1);
      await Promise.all([worker.stop(), house.clock.advance(2_000)]);
      expect(errors).toEqual([]);
    });

    it("a failed registration is tried again, and reported to onError once when it lasts", async () => {
      const house = open();
      const storage = counted(house);
      const { worker, errors } = work(house, () => {}, { storage });
      await house.clock.advance(0);
      storage.plan(({ member }) => (member === "register" ? { kind: "fail-before" } : undefined));
      await house.clock.advance(40_000);
      expect([errors, (await house.queue.workers()).length]).toEqual([[], 1]);
      await house.clock.advance(10 * MINUTE);
      expect(errors).toEqual([
        expect.objectContaining({ message: expect.stringContaining("could not be registered") }),
      ]);
      // As one that was paused, or cut off, for so long.
      expect(await house.queue.workers()).toEqual([]);
      storage.heal();
      await house.clock.advance(15_000);
      expect(await house.queue.workers()).toMatchObject([
        { id: worker.id, since: new Date(house.clock.wall() - house.clock.now()) },
      ]);
      await worker.stop();
    });

    it("a worker whose storage was closed first stops all the same", async () => {
      const house = open();
      const { worker } = work(house, () => {});
      await house.clock.advance(0);
      await house.storage.close();
      await Promise.all([worker.stop({ timeout: 0 }), house.clock.advance(5_000)]);
      expect(house.clock.timers).toBe(0);
    });

    it("the registry follows a server that is scaled", async () => {
      const house = open();
      class Ping extends Job<void, void> {
        static readonly type: string = "ping";
        override async execute() {}
      }
      const { storage, clock } = house;
      const server = new JobQueueServer(Ping, { storage, queueName: "q", workerCount: 3, clock });
      await Promise.all([server.start(), clock.advance(0)]);
      expect(await house.queue.workers()).toHaveLength(3);
      await Promise.all([server.scaleWorkers(5), clock.advance(0)]);
      expect(await house.queue.workers()).toHaveLength(5);
      await Promise.all([server.scaleWorkers(1), clock.advance(0)]);
      expect(await house.queue.workers()).toHaveLength(1);
      await Promise.all([server.stop(), clock.advance(0)]);
      expect(await house.queue.workers()).toEqual([]);
    });
  });

  describe("a type that no live worker handles", () => {
    it("explain() says that no live worker handles the type, and that the job is not runnable", async () => {
      const house = open();
      const typo = await house.queue.add("send_emial", null);
      expect(await typo.explain()).toMatchObject({
        runnable: false,
        blockers: [
          {
            kind: "no-worker",
            until: undefined,
            text: 'No live worker handles type "send_emial": the queue "q" has no live worker.',
          },
        ],
        earliest: new Date(house.clock.wall()),
      });
      const { worker } = work(house, { send_email: () => {} });
      await house.clock.advance(0);
      expect((await typo.explain()).blockers).toMatchObject([
        {
          kind: "no-worker",
          text: 'No live worker handles type "send_emial": the live worker of the queue "q" handles other types.',
        },
      ]);
      expect(await house.queue.explain()).toMatchObject({
        unhandledTypes: ["send_emial"],
        assumed: ['No live worker handles type "send_emial": such jobs wait until one does.'],
      });
      await house.queue.pause();
      const paused = await typo.explain();
      expect(paused.blockers.map(({ kind }) => kind)).toEqual(["no-worker", "queue-paused"]);
      await worker.stop();
    });

    it("the unhandled event comes once after half a minute, from one worker of the storage, until the type is handled", async () => {
      const house = open();
      const events: (JobEvents["unhandled"] & { readonly at: number })[] = [];
      house.queue.on("unhandled", ({ queue, type }) => events.push({ queue, type, at: house.clock.now() }));
      const { worker } = work(house, () => {}, { queue: "another" });
      const second = work({ ...house, storage: counted(house) }, () => {}, { queue: "another" });
      await house.clock.advance(0);
      await house.queue.addBulk(many(20, "typo"));
      await house.clock.advance(30_000);
      expect(events).toEqual([]);
      await house.clock.advance(10 * MINUTE);
      expect(events).toEqual([{ queue: "q", type: "typo", at: 60_000 }]);
      const handling = work(house, { typo: () => {} });
      await house.clock.advance(MINUTE);
      await Promise.all([handling.worker.stop(), house.clock.advance(0)]);
      await house.queue.add("typo", null);
      await house.clock.advance(2 * MINUTE);
      expect(events).toHaveLength(2);
      await Promise.all([worker.stop(), second.worker.stop()]);
    });

    it("the unhandled event does not come during a deploy, nor while the type is paused", async () => {
      const house = open();
      const events: unknown[] = [];
      house.queue.on("unhandled", (event) => events.push(event));
      const { worker } = work(house, { other: () => {} });
      await house.queue.add("late", null);
      await house.queue.add("stopped", null);
      await house.queue.pause("stopped");
      await house.clock.advance(20_000);
      const late = work(house, { late: () => {} });
      await house.clock.advance(10 * MINUTE);
      expect(events).toEqual([]);
      await Promise.all([worker.stop(), late.worker.stop()]);
    });
  });
});
