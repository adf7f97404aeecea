import { describe, expect, it } from "vitest";
import { defineLimits, type Handler, MemoryStorage, Queue, RateLimitedError, Worker } from "../../src/index.ts";
import { mostInAnyWindow } from "../../examples/common/windows.ts";
import { FakeClock } from "../../src/testing/index.ts";

/*
 * The course's tables and exercises with limits that are kept beside the jobs: the tables become rules, the loop around
 * them becomes nothing at all. One worker runs every type, and puts nothing back.
 */
const MINUTE = 60_000;
const numbers = (length: number) => Array.from({ length }, (_, i) => i);

const RATE_LIMITS: Record<string, number> = {
  send_webhook: 30, // 30 webhooks per minute
  sync_inventory: 60, // 60 syncs per minute
  send_email: 120, // 120 emails per minute
};

const SERVICE_LIMITS: Record<string, { types: string[]; maxPerMinute: number }> = {
  email_provider: {
    types: ["send_email", "send_digest", "send_notification"],
    maxPerMinute: 120,
  },
  payment_gateway: {
    types: ["charge_card", "refund", "retry_payment"],
    maxPerMinute: 60,
  },
};

function perType(table: Record<string, number>) {
  return defineLimits(
    Object.fromEntries(Object.entries(table).map(([type, max]) => [type, { max, per: "1m", types: [type] }])),
  );
}

function perService(table: typeof SERVICE_LIMITS) {
  return defineLimits(
    Object.fromEntries(
      Object.entries(table).map(([service, { types, maxPerMinute }]) => [
        service,
        { max: maxPerMinute, per: "1m", types },
      ]),
    ),
  );
}

function course() {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const queue = new Queue("course", { storage, clock });
  const starts: Record<string, number[]> = {};
  /** Notes when a job started; the work takes so long. */
  const during =
    (ms: number): Handler =>
    async ({ type }) => {
      (starts[type] ??= []).push(clock.now());
      await new Promise<void>((resolve) => clock.after(ms, resolve));
    };
  const counts = () => Object.fromEntries(Object.entries(starts).map(([type, at]) => [type, at.length]));
  const stop = async (...workers: Worker[]) => {
    await Promise.all([...workers.map((worker) => worker.stop({ timeout: 0 })), clock.advance(1_000)]);
  };
  return { clock, storage, queue, starts, during, counts, stop };
}

describe("the course's tables, as limits", () => {
  it("exercise 1: 5 per minute, 20 jobs, only 5 run in the first minute", async () => {
    const { clock, storage, queue, starts, during, stop } = course();
    const limits = defineLimits({ webhooks: { max: 5, per: "1m", types: ["send_webhook"] } });
    const worker = new Worker("course", during(50), { storage, clock, concurrency: 20, limits });
    await queue.addBulk(numbers(20).map((n) => ({ type: "send_webhook", data: n })));
    const ran: number[] = [];
    for (let minute = 0; minute < 4; minute++) {
      await clock.advance(MINUTE - (minute === 0 ? 1 : 0));
      ran.push(starts["send_webhook"]!.length);
    }
    expect(ran).toEqual([5, 10, 15, 20]);
    expect(mostInAnyWindow(starts["send_webhook"]!, MINUTE)).toBe(5);
    await clock.advance(100);
    expect((await queue.list({ state: "completed" })).jobs.map(({ attempt }) => attempt)).toEqual(numbers(20).fill(1));
    await stop(worker);
  });

  it("exercise 2: each type respects its own limit, with one worker for all of them", async () => {
    const { clock, storage, queue, starts, during, counts, stop } = course();
    const limits = perType(RATE_LIMITS);
    const worker = new Worker("course", during(100), { storage, clock, concurrency: 20, limits });
    // The webhooks come first, far more of them than may run: what stands behind them does not wait for them.
    for (const type of Object.keys(RATE_LIMITS)) {
      await queue.addBulk(numbers(200).map((n) => ({ type, data: n })));
    }
    await clock.advance(MINUTE - 1);
    expect(counts()).toEqual(RATE_LIMITS);
    await clock.advance(MINUTE);
    expect(counts()).toEqual({ send_webhook: 60, sync_inventory: 120, send_email: 200 });
    for (const [type, max] of Object.entries(RATE_LIMITS)) expect(mostInAnyWindow(starts[type]!, MINUTE)).toBe(max);
    await stop(worker);
  });

  it("per service: one limit for all the types that call it, over workers and queues", async () => {
    const { clock, storage, queue, starts, during, stop } = course();
    const limits = perService(SERVICE_LIMITS);
    const invoices = new Queue("invoices", { storage, clock });
    const workers = ["course", "course", "invoices"].map(
      (name) => new Worker(name, during(100), { storage, clock, concurrency: 20, limits }),
    );
    for (const { types } of Object.values(SERVICE_LIMITS)) {
      for (const type of types) await queue.addBulk(numbers(120).map((n) => ({ type, data: n })));
    }
    await invoices.addBulk(numbers(50).map((n) => ({ type: "send_email", data: n })));
    await clock.advance(MINUTE - 1);
    const of = (service: string) => SERVICE_LIMITS[service]!.types.flatMap((type) => starts[type] ?? []);
    // Not 360 and 180.
    expect([of("email_provider").length, of("payment_gateway").length]).toEqual([120, 60]);
    await clock.advance(MINUTE);
    expect(mostInAnyWindow(of("email_provider"), MINUTE)).toBe(120);
    expect(mostInAnyWindow(of("payment_gateway"), MINUTE)).toBe(60);
    await stop(...workers);
  });

  /** The receiving server: 30 a minute, and 429 for the rest. */
  function receiver(clock: FakeClock) {
    const seen = { taken: 0, refused: 0 };
    let windowEnds = 0;
    let left = 0;
    const call = (): Response => {
      if (clock.wall() >= windowEnds) {
        windowEnds = clock.wall() + MINUTE;
        left = 30;
      }
      if (left-- > 0) {
        seen.taken += 1;
        return new Response("ok");
      }
      seen.refused += 1;
      const seconds = Math.ceil((windowEnds - clock.wall()) / 1_000);
      return new Response("", { status: 429, headers: { "Retry-After": String(seconds) } });
    };
    return { seen, call };
  }

  async function send(max: number | undefined, onRefusal: (response: Response) => Error) {
    const { clock, storage, queue, stop } = course();
    const { seen, call } = receiver(clock);
    const handler = async () => {
      const response = call();
      if (response.status === 429) throw onRefusal(response);
    };
    const limits = max === undefined ? undefined : perType({ send_webhook: max });
    const worker = new Worker("course", handler, { storage, clock, random: () => 0.5, concurrency: 10, limits });
    await queue.addBulk(numbers(100).map((n) => ({ type: "send_webhook", data: n })));
    await clock.advance(10 * MINUTE);
    const { jobs } = await queue.list({ limit: 100 });
    const counts = await queue.counts();
    await stop(worker);
    return { seen, counts, attempts: Math.max(...jobs.map(({ attempt }) => attempt)) };
  }

  it("exercise 3: without a limit jobs fail, retry and fail; with one, none does", async () => {
    const without = await send(undefined, ({ status }) => new Error(`HTTP ${status}`));
    expect(without.counts).toMatchObject({ completed: 30, dead: 70 });
    expect(without.seen).toEqual({ taken: 30, refused: 350 });

    const limited = await send(30, ({ status }) => new Error(`HTTP ${status}`));
    expect(limited).toMatchObject({ counts: { completed: 100, dead: 0 }, attempts: 1 });
    expect(limited.seen).toEqual({ taken: 100, refused: 0 });
  });

  it("exercise 3, with a limit that is too generous: what the service says is kept, and costs no attempt", async () => {
    const informed = await send(10_000, (response) => new RateLimitedError(response, { limit: "send_webhook" }));
    expect(informed).toMatchObject({ counts: { completed: 100, dead: 0 }, attempts: 1 });
    expect(informed.seen.taken).toBe(100);
    // What was in flight when the service first refused, once a minute; not a storm.
    expect(informed.seen.refused).toBeLessThanOrEqual(3 * 10);
  });
});
