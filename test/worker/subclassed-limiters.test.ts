import { describe, expect, it } from "vitest";
import { CompositeLimiter, ConcurrencyLimiter, type Permit, RateLimiter, type Refusal } from "../../src/index.ts";
import { many, open, work } from "./support.ts";

describe("a subclass of a built-in limiter as the limiter of a worker", () => {
  it.each(["alone", "in a composite"])(
    "a subclassed limiter blocks every start while its canProceed() returns false, %s",
    async (how) => {
      class Door extends ConcurrencyLimiter {
        open = false;
        override async canProceed(): Promise<boolean> {
          return this.open && super.canProceed();
        }
      }
      const house = open();
      const door = new Door(2, { clock: house.clock });
      let ran = 0;
      const { worker, errors } = work(house, async () => void (ran += 1), {
        concurrency: 5,
        limiter: how === "alone" ? door : new CompositeLimiter([door]),
      });
      await house.queue.addBulk(many(4));
      await house.clock.advance(5_000);
      expect(ran).toBe(0);
      door.open = true;
      await house.clock.advance(5_000);
      expect([ran, door.running]).toEqual([4, 0]);
      await worker.stop();
      expect(errors).toEqual([]);
    },
  );

  it("a subclassed limiter records every start and every end", async () => {
    class Recording extends RateLimiter {
      readonly recorded: string[] = [];
      override async recordJobStart(): Promise<void> {
        this.recorded.push("start");
        await super.recordJobStart();
      }
      override async recordJobCompletion(): Promise<void> {
        this.recorded.push("end");
        await super.recordJobCompletion();
      }
    }
    const house = open();
    const limiter = new Recording(house.storage.rates, "api", {
      maxExecutions: 2,
      windowSizeInSeconds: 1,
      initialBackoffDelay: 1,
      maxBackoffDelay: 2,
      clock: house.clock,
      random: () => 0,
    });
    const starts: number[] = [];
    const { worker, errors } = work(house, async () => void starts.push(house.clock.now()), { limiter });
    await house.queue.addBulk(many(5));
    await house.clock.advance(5_000);
    expect(limiter.recorded).toEqual(["start", "end", "start", "end", "start", "end", "start", "end", "start", "end"]);
    expect(starts.map((at) => Math.floor(at / 1_000))).toEqual([0, 0, 1, 1, 2]);
    await worker.stop();
    expect(errors).toEqual([]);
  });

  it("a subclassed limiter is asked by its own tryAcquire()", async () => {
    class Mine extends ConcurrencyLimiter {
      asked = 0;
      override async tryAcquire(): Promise<Permit | Refusal> {
        this.asked += 1;
        return super.tryAcquire();
      }
    }
    const house = open();
    const limiter = new Mine(1, { clock: house.clock });
    const { worker, errors } = work(house, async () => {}, { limiter });
    await house.queue.addBulk(many(3));
    await house.clock.advance(1_000);
    expect(await house.queue.counts()).toMatchObject({ completed: 3 });
    expect(limiter.asked).toBeGreaterThanOrEqual(3);
    await worker.stop();
    expect(errors).toEqual([]);
  });

  it("a subclass of a shared limit of the worker's own storage is refused", async () => {
    const house = open();
    const limiter = house.storage.limiter("api");
    limiter.canProceed = async () => true;
    expect(() => work(house, async () => {}, { limiter })).toThrow(/no shared limit of the worker's own storage/);
  });
});
