import { describe, expect, it } from "vitest";
import {
  type Claim,
  type ClaimRequest,
  type Clock,
  ConcurrencyLimiter,
  MemoryStorage,
  type Outcome,
  Queue,
  type WorkerOptions,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { PrefetchSize } from "../../src/worker/prefetch.ts";
import { many, work } from "./support.ts";

/** Prefetches as many jobs as it is asked for, and records the requests. */
class GenerousStorage extends MemoryStorage {
  readonly requests: ClaimRequest[] = [];
  readonly gave: number[] = [];
  /** Everything that was settled, in whatever way. */
  readonly outcomes: Outcome[] = [];

  override async claim(request: ClaimRequest): Promise<Claim> {
    this.requests.push(request);
    this.outcomes.push(...request.settle);
    const claim = await super.claim({ ...request, max: request.max + (request.prefetch ?? 0) });
    this.gave.push(claim.jobs.length);
    return claim;
  }

  override async settle(outcomes: readonly Outcome[]): Promise<readonly string[]> {
    this.outcomes.push(...outcomes);
    return super.settle(outcomes);
  }

  /** The most jobs that a claim returned beyond what could run. */
  get prefetched(): number {
    return Math.max(...this.gave.map((n, i) => n - this.requests[i]!.max));
  }
}

function open() {
  const clock = new FakeClock();
  const storage = new GenerousStorage({ clock });
  return { clock, storage, queue: new Queue("q", { storage, clock }) };
}

type House = ReturnType<typeof open>;

/** Handlers that take so long, by number of the job. */
function timed({ clock }: House, takes: (n: number) => number) {
  const seen = { ran: [] as number[], running: 0, peak: 0 };
  const handler = async ({ data }: { readonly data: number }) => {
    seen.ran.push(data);
    seen.peak = Math.max(seen.peak, ++seen.running);
    await new Promise<void>((resolve) => void clock.after(takes(data), resolve));
    seen.running -= 1;
  };
  return { seen, handler };
}

/** Moves the clock in small steps until this holds. */
async function until({ clock }: House, holds: () => boolean): Promise<void> {
  for (let steps = 0; !holds() && steps < 20_000; steps++) await clock.advance(0.5);
  expect(holds()).toBe(true);
}

describe("prefetched jobs", () => {
  it("a worker prefetches as many jobs as it starts in 50 ms, and runs them one by one in their order", async () => {
    const house = open();
    const { seen, handler } = timed(house, () => 1);
    await house.queue.addBulk(many(400));
    const { worker, errors } = work(house, handler);
    await until(house, () => seen.ran.length === 400);
    await Promise.all([worker.onIdle(), house.clock.advance(1)]);
    expect(seen.ran).toEqual(Array.from({ length: 400 }, (_, n) => n));
    expect(seen.peak).toBe(1);
    // One in a millisecond: fifty are enough for the next 50 ms.
    expect(house.storage.prefetched).toBeGreaterThan(20);
    expect(house.storage.prefetched).toBeLessThanOrEqual(50);
    expect(house.storage.requests.length).toBeLessThan(200);
    expect((await house.queue.counts()).completed).toBe(400);
    await worker.stop();
    expect(errors).toEqual([]);
    expect(house.clock.timers).toBe(0);
  });

  it("a worker prefetches nothing when jobs take long", async () => {
    const house = open();
    const { seen, handler } = timed(house, () => 1_000);
    await house.queue.addBulk(many(12));
    const { worker } = work(house, handler, { concurrency: 3 });
    for (let n = 0; n < 5; n++) await house.clock.advance(1_000);
    expect(seen.ran.length).toBe(12);
    expect(house.storage.prefetched).toBe(0);
    await worker.stop();
  });

  it("a worker gives back prefetched jobs that it cannot start soon, and no attempt is spent", async () => {
    const house = open();
    // From the hundredth on they take a minute.
    const { seen, handler } = timed(house, (n) => (n < 100 ? 1 : 60_000));
    const jobs = await house.queue.addBulk(many(200));
    const { worker } = work(house, handler);
    await until(house, () => seen.ran.length > 100);
    expect((await house.queue.counts()).active).toBeGreaterThan(10);
    expect(worker.running).toBe(1);
    await house.clock.advance(300);
    expect(await house.queue.counts()).toMatchObject({ active: 1, waiting: 99 });
    expect(await jobs[101]!.info()).toMatchObject({ state: "waiting", attempt: 0 });
    // Others begin them, in their order.
    const other = timed(house, () => 1);
    const { worker: second } = work(house, other.handler);
    await until(house, () => other.seen.ran.length === 99);
    expect(other.seen.ran).toEqual(Array.from({ length: 99 }, (_, n) => n + 101));
    expect(await jobs[101]!.info()).toMatchObject({ attempt: 1 });
    await Promise.all([worker.stop({ timeout: 0 }), second.stop(), house.clock.advance(5_000)]);
  });

  it("a worker gives back prefetched jobs at once when it stops", async () => {
    const house = open();
    const { seen, handler } = timed(house, (n) => (n < 60 ? 1 : 5_000));
    await house.queue.addBulk(many(200));
    const { worker } = work(house, handler);
    await until(house, () => seen.ran.length === 61);
    expect((await house.queue.counts()).active).toBeGreaterThan(10);
    const stopped = worker.stop();
    await house.clock.advance(1);
    expect(await house.queue.counts()).toMatchObject({ active: 1, waiting: 139 });
    await house.clock.advance(5_000);
    await stopped;
    expect(await house.queue.counts()).toMatchObject({ completed: 61, waiting: 139 });
    expect(seen.ran.length).toBe(61);
    expect(house.clock.timers).toBe(0);
  });

  it("a prefetched job that is cancelled does not start", async () => {
    const house = open();
    const { seen, handler } = timed(house, (n) => (n < 60 ? 1 : 100));
    const jobs = await house.queue.addBulk(many(63));
    const { worker } = work(house, handler);
    await until(house, () => seen.ran.length === 61);
    expect(await jobs[61]!.info()).toMatchObject({ state: "active" });
    await jobs[61]!.cancel();
    await house.clock.advance(250);
    expect(seen.ran).not.toContain(61);
    expect(seen.ran).toContain(62);
    expect(await jobs[61]!.info()).toMatchObject({ state: "cancelled" });
    await worker.stop();
  });

  it("a prefetched job whose deadline passes does not start", async () => {
    const house = open();
    const { seen, handler } = timed(house, (n) => (n < 60 ? 1 : 200));
    const jobs = await house.queue.addBulk(many(62, "t", { deadline: "220ms" }));
    const { worker } = work(house, handler);
    await until(house, () => seen.ran.length === 61);
    expect(await jobs[61]!.info()).toMatchObject({ state: "active" });
    await house.clock.advance(400);
    expect(seen.ran).not.toContain(61);
    expect(await jobs[61]!.info()).toMatchObject({ state: "dead" });
    await worker.stop();
  });

  it("a worker gives back prefetched jobs after a pause of the process, and claims them again", async () => {
    const house = open();
    const { seen, handler } = timed(house, () => 1);
    const jobs = await house.queue.addBulk(many(300));
    let stoodStill = 0;
    const clock: Clock = {
      now: () => house.clock.now() + stoodStill,
      wall: () => house.clock.wall() + stoodStill,
      after: (ms, callback) => house.clock.after(ms, callback),
    };
    const { worker } = work(house, handler, { clock });
    await until(house, () => seen.ran.length > 100);
    const began = new Set(seen.ran);
    const lay = new Set<number>();
    for (const [n, job] of jobs.entries()) if (!began.has(n) && (await job.info())?.state === "active") lay.add(n);
    expect(lay.size).toBeGreaterThan(10);
    // All timers stand still with it.
    stoodStill = 20_000;
    await house.clock.advance(1);
    const back = house.storage.outcomes.filter(({ to }) => to === "back");
    expect(new Set(back.map(({ id }) => jobs.findIndex((job) => job.id === id)))).toEqual(lay);
    await until(house, () => new Set(seen.ran).size === 300);
    expect(seen.ran.length).toBe(300);
    await Promise.all([worker.stop(), house.clock.advance(1)]);
  });

  it.each<[string, Partial<WorkerOptions>]>([
    ["under a limiter", { limiter: { max: 1_000, duration: "1s" } }],
    ["with a limiter of its own", { limiter: new ConcurrencyLimiter(5) }],
    ["with the option `prefetch: false`", { prefetch: false }],
  ])("a worker prefetches nothing %s", async (_, options) => {
    const house = open();
    const { seen, handler } = timed(house, () => 1);
    await house.queue.addBulk(many(100));
    const { worker } = work(house, handler, options);
    await until(house, () => seen.ran.length === 100);
    expect(house.storage.requests.filter(({ prefetch }) => (prefetch ?? 0) > 0)).toEqual([]);
    await Promise.all([worker.stop(), house.clock.advance(1)]);
  });
});

describe("jobs that have a free slot", () => {
  it("jobs with a free slot start, however long the jobs before them kept the process busy", async () => {
    const house = open();
    let busy = 0;
    const clock: Clock = {
      now: () => house.clock.now() + busy,
      wall: () => house.clock.wall() + busy,
      after: (ms, callback) => house.clock.after(ms, callback),
    };
    await house.queue.addBulk(many(10));
    const { worker } = work(house, async () => void (busy += 200), { clock, concurrency: 10 });
    await Promise.all([worker.onIdle(), house.clock.advance(1)]);
    expect(house.storage.outcomes.map(({ to }) => to)).toEqual(Array.from({ length: 10 }, () => "completed"));
    await worker.stop();
  });

  it("thousands of jobs may end at once before their handlers are called", async () => {
    const house = open();
    await house.queue.addBulk(many(5_000, "t", { deadline: "10s" }));
    const claim = house.storage.claim.bind(house.storage);
    // As they are when they come too late.
    house.storage.claim = async (request) => {
      const answer = await claim(request);
      return { ...answer, jobs: answer.jobs.map((job) => Object.assign({}, job, { deadline: job.startedAt })) };
    };
    const { worker, errors } = work(house, async () => {}, { concurrency: 5_000 });
    await Promise.all([worker.onIdle(), house.clock.advance(1)]);
    expect((await house.queue.counts()).dead).toBe(5_000);
    expect(errors).toEqual([]);
    await worker.stop();
  });

  it("prefetched jobs may end before their handlers are called", async () => {
    const house = open();
    await house.queue.addBulk(many(400));
    const claim = house.storage.claim.bind(house.storage);
    house.storage.claim = async (request) => {
      const answer = await claim({ ...request, prefetch: 400 });
      return { ...answer, jobs: answer.jobs.map((job) => Object.assign({}, job, { data: "no JSON" })) };
    };
    const { worker, errors } = work(house, async () => {});
    await Promise.all([worker.onIdle(), house.clock.advance(1)]);
    expect((await house.queue.counts()).dead).toBe(400);
    expect(errors).toEqual([]);
    await worker.stop();
  });
});

describe("the prefetch size of a worker", () => {
  it("the prefetch size is what all slots start in 50 ms, by how long recent jobs took, bounded", () => {
    const size = new PrefetchSize(30_000, 4);
    expect(size.next()).toBe(0);
    size.ended(10);
    size.ended(30);
    // 4 slots, 20 ms each: 10 in 50 ms; and it stays so until something else has ended.
    expect(size.next()).toBe(10);
    expect(size.next()).toBe(10);
    size.ended(0);
    expect(size.next()).toBe(500);
    size.ended(1_000);
    expect(size.next()).toBe(0);
  });

  it("the prefetch size is zero after a reset", () => {
    const size = new PrefetchSize(30_000, 1);
    size.ended(0.1);
    expect(size.next()).toBe(500);
    size.ended(0.1);
    size.reset();
    expect(size.next()).toBe(0);
  });

  it("the prefetch size leaves most of a short lease for the work", () => {
    const size = new PrefetchSize(100, 1);
    size.ended(1);
    expect(size.next()).toBe(10);
  });
});
