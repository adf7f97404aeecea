import { describe, expect, it } from "vitest";
import type { Claim, ClaimRequest, Outcome, Report } from "../../src/storage/job-storage.ts";
import { faultyStorage } from "../../src/testing/index.ts";
import { many, open, work } from "./support.ts";

const KILOBYTES_100 = "x".repeat(100_000);
const MEGABYTE = "x".repeat(1_000_000);

const large = (n: number, data = KILOBYTES_100) => Array.from({ length: n }, () => ({ type: "t", data }));

const bytesOf = ({ jobs }: Claim) => jobs.reduce((sum, { data }) => sum + data.length, 0);

/** A storage whose answers come over a way that carries so many bytes a second, and what each claim brought. */
function far({ storage, clock }: ReturnType<typeof open>, bytesPerSecond: number) {
  const claims: number[] = [];
  const claim = async (request: ClaimRequest): Promise<Claim> => {
    const answer = await storage.claim(request);
    if (answer.jobs.length > 0) claims.push(answer.jobs.length);
    await new Promise<void>((resolve) => clock.after((bytesOf(answer) / bytesPerSecond) * 1_000, resolve));
    return answer;
  };
  const slow = new Proxy(storage, {
    get(target, key) {
      if (key === "claim") return claim;
      const member: unknown = Reflect.get(target, key);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
  return { slow, claims };
}

describe("claims whose answers come too late", () => {
  it("claims that are answered too late become smaller until all their jobs can start", async () => {
    const house = open();
    await house.queue.addBulk(large(20));
    // Two megabytes take four seconds, and half a lease is two.
    const { slow, claims } = far(house, 500_000);
    let ran = 0;
    const { worker, errors } = work({ ...house, storage: slow }, async () => void (ran += 1), {
      concurrency: 20,
      lease: "4s",
    });
    await worker.start();
    await house.clock.advance(60_000);
    expect(ran).toBe(20);
    expect(claims[0]).toBe(20);
    expect(claims.slice(2).every((jobs) => jobs < 20)).toBe(true);
    expect(errors).toEqual([]);
    await worker.stop();
  });

  it("claims become larger again when they are answered quickly", async () => {
    const house = open();
    const asked: number[] = [];
    const storage = faultyStorage(
      house.storage,
      ({ member, args }) => {
        if (member !== "claim") return undefined;
        asked.push((args[0] as { maxBytes: number }).maxBytes);
        return asked.length <= 4 ? { kind: "delay-answer", ms: 20_000 } : undefined;
      },
      { clock: house.clock },
    );
    await house.queue.addBulk(large(60));
    const { worker } = work({ ...house, storage }, async () => {}, { concurrency: 60 });
    await worker.start();
    await house.clock.advance(100_000);
    expect(Math.min(...asked)).toBeLessThan(400_000);
    expect(asked.at(-1)).toBe(asked[0]);
    expect(await house.queue.counts()).toMatchObject({ waiting: 0, active: 0, completed: 60 });
    await worker.stop();
  });

  it("claims that are answered too late are reported once with advice, and again when it happens anew", async () => {
    const house = open();
    let late = true;
    const storage = faultyStorage(
      house.storage,
      ({ member }) => (member === "claim" && late ? { kind: "delay-answer", ms: 20_000 } : undefined),
      { clock: house.clock },
    );
    await house.queue.addBulk(many(3));
    let ran = 0;
    const { worker, errors } = work({ ...house, storage }, async () => void (ran += 1), { concurrency: 5 });
    await worker.start();
    await house.clock.advance(200_000);
    expect(ran).toBe(0);
    expect(errors).toEqual([
      expect.objectContaining({ message: expect.stringMatching(/too late 3 times in a row.*longer `lease`/s) }),
    ]);
    late = false;
    await house.clock.advance(60_000);
    expect(ran).toBe(3);
    late = true;
    await house.queue.addBulk(many(3));
    await house.clock.advance(200_000);
    expect(errors).toHaveLength(2);
    late = false;
    await house.clock.advance(60_000);
    expect(await house.queue.counts()).toMatchObject({ completed: 6, dead: 0 });
    await worker.stop();
  });
});

describe("the size of what a worker settles", () => {
  it("large results that end together are settled in several steps, bounded in bytes", async () => {
    const house = open();
    const sizes: number[] = [];
    const storage = faultyStorage(
      house.storage,
      ({ member, args }) => {
        const settle = member === "claim" ? (args[0] as { settle: readonly Outcome[] }).settle : args[0];
        if (member !== "claim" && member !== "settle") return;
        const results = (settle as readonly Outcome[]).map((one) => (one.to === "completed" ? one.result : null));
        sizes.push(results.reduce((sum, result) => sum + (result?.length ?? 0), 0));
      },
      { clock: house.clock },
    );
    await house.queue.addBulk(many(12));
    const { worker, errors } = work({ ...house, storage }, async () => MEGABYTE, { concurrency: 12 });
    await worker.start();
    await house.clock.advance(1_000);
    expect(await house.queue.counts()).toMatchObject({ completed: 12 });
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4 * 2 ** 20);
    expect(errors).toEqual([]);
    await worker.stop();
  });

  it("many lines that are logged together are written in several steps, bounded in bytes", async () => {
    const house = open();
    const sizes: number[] = [];
    const storage = faultyStorage(
      house.storage,
      ({ member, args }) => {
        if (member !== "report") return;
        const lines = (args[0] as readonly Report[]).flatMap(({ log }) => log ?? []);
        sizes.push(lines.reduce((sum, line) => sum + line.length, 0));
      },
      { clock: house.clock },
    );
    const job = await house.queue.add("t", null);
    const line = (n: number) => `${n} ${"x".repeat(3_000)}`;
    const { worker, errors } = work({ ...house, storage }, async (_, ctx) => {
      await Promise.all(Array.from({ length: 3_000 }, (__, n) => ctx.log(line(n))));
    });
    await worker.start();
    await house.clock.advance(1_000);
    const { log } = await job.history();
    expect(log.map(({ text }) => text)).toEqual(Array.from({ length: 1_000 }, (_, n) => line(2_000 + n)));
    expect(sizes.length).toBeGreaterThan(1);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(4 * 2 ** 20);
    expect(errors).toEqual([]);
    await worker.stop();
  });
});
