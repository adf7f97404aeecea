import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { IRateLimiterStorage } from "../../src/index.ts";
import type { FakeClock } from "../../src/testing/index.ts";

/** What every storage for rate limiters must do. One line runs it for one more. */
export function rateLimiterStorageSuite(
  name: string,
  open: () => Promise<{ storage: Required<IRateLimiterStorage>; clock: FakeClock }>,
): void {
  const rule = { maxExecutions: 3, windowMs: 1_000 };
  const epoch = new Date(0).toISOString();

  describe(`${name} as a rate limiter storage`, () => {
    it("setup may be called any number of times", async () => {
      const { storage } = await open();
      await storage.setupDatabase();
      await storage.recordExecution("q");
      await storage.setupDatabase();
      expect(await storage.getExecutionCount("q", epoch)).toBe(1);
    });

    it("starts are counted after an instant, and found by their place, oldest first", async () => {
      const { storage, clock } = await open();
      const times: number[] = [];
      for (let i = 0; i < 4; i++) {
        times.push(clock.wall());
        await storage.recordExecution("q");
        await clock.advance(100);
      }
      for (const [i, time] of times.entries()) {
        expect(await storage.getExecutionCount("q", new Date(time).toISOString())).toBe(3 - i);
        expect(await storage.getOldestExecutionAtOffset("q", i)).toBe(new Date(time).toISOString());
      }
      expect(await storage.getOldestExecutionAtOffset("q", 4)).toBeUndefined();
      expect(await storage.getExecutionCount("other", epoch)).toBe(0);
    });

    it("starts are kept as far back as they are asked for", async () => {
      const { storage, clock } = await open();
      const twoHours = 7_200_000;
      const count = () => storage.getExecutionCount("q", new Date(clock.wall() - twoHours).toISOString());
      for (let i = 0; i < 6; i++) {
        await storage.recordExecution("q");
        expect(await count()).toBe(Math.min(i + 1, 4));
        await clock.advance(1_800_000);
      }
    });

    it("the next available time is kept, and only moves later", async () => {
      const { storage, clock } = await open();
      expect(await storage.getNextAvailableTime("q")).toBeUndefined();
      const later = new Date(clock.wall() + 5_000).toISOString();
      await storage.setNextAvailableTime("q", later);
      await storage.setNextAvailableTime("q", new Date(clock.wall() + 1_000).toISOString());
      expect(await storage.getNextAvailableTime("q")).toBe(later);
      expect(await storage.tryRecordExecution("q", rule)).toMatchObject({ granted: false, retryInMs: 5_000 });
      await clock.advance(5_000);
      expect(await storage.tryRecordExecution("q", rule)).toMatchObject({ granted: true });
    });

    it("a start is checked and recorded in one step", async () => {
      const { storage } = await open();
      const answers = await Promise.all(Array.from({ length: 20 }, () => storage.tryRecordExecution("q", rule)));
      expect(answers.filter(({ granted }) => granted)).toHaveLength(3);
      expect(new Set(answers.flatMap(({ token }) => token ?? [])).size).toBe(3);
      for (const answer of answers) expect(answer.retryInMs).toBe(answer.granted ? 0 : 1_000);
    });

    it("a weight of 0 asks without recording", async () => {
      const { storage } = await open();
      const ask = () => storage.tryRecordExecution("q", { ...rule, maxExecutions: rule.maxExecutions - 1, weight: 0 });
      expect(await ask()).toMatchObject({ granted: true, retryInMs: 0 });
      for (let i = 0; i < 3; i++) await storage.tryRecordExecution("q", rule);
      expect(await ask()).toMatchObject({ granted: false, retryInMs: 1_000 });
      expect(await storage.getExecutionCount("q", epoch)).toBe(3);
    });

    it("a start is cancelled once, and never that of another token", async () => {
      const { storage, clock } = await open();
      const first = await storage.tryRecordExecution("q", rule);
      await storage.tryRecordExecution("q", { ...rule, weight: 2 });
      await storage.cancelExecution("q", first.token!);
      await storage.cancelExecution("q", first.token!);
      await storage.cancelExecution("q", "no such token");
      expect(await storage.getExecutionCount("q", epoch)).toBe(2);
      const third = await storage.tryRecordExecution("q", rule);
      await clock.advance(1_000);
      await storage.tryRecordExecution("q", { ...rule, weight: 3 });
      await storage.cancelExecution("q", third.token!);
      expect((await storage.tryRecordExecution("q", rule)).granted).toBe(false);
    });

    it("a token means nothing under another name", async () => {
      const { storage } = await open();
      const { token } = await storage.tryRecordExecution("q", { ...rule, weight: 2 });
      await storage.tryRecordExecution("other", rule);
      await storage.tryRecordExecution("other.q", rule);
      for (const other of ["other", "other.q"]) {
        await storage.cancelExecution(other, token!);
        await storage.settleExecution(other, token!, 1);
        await storage.confirmExecution(other, [{ token: token!, calledInMs: 0 }]);
      }
      expect(await storage.getExecutionCount("q", epoch)).toBe(2);
      expect(await storage.getExecutionCount("other", epoch)).toBe(1);
      expect(await storage.getExecutionCount("other.q", epoch)).toBe(1);
    });

    it("a settled weight is given back or charged at once, and late overuse counts from then on", async () => {
      const { storage, clock } = await open();
      const ten = { maxExecutions: 10, windowMs: 1_000 };
      const first = await storage.tryRecordExecution("q", { ...ten, weight: 8 });
      await storage.settleExecution("q", first.token!, 3);
      const second = await storage.tryRecordExecution("q", { ...ten, weight: 7 });
      expect(second.granted).toBe(true);
      await storage.settleExecution("q", second.token!, 20);
      await clock.advance(999);
      expect(await storage.tryRecordExecution("q", ten)).toMatchObject({ granted: false, retryInMs: 1 });
      await clock.advance(1);
      await storage.settleExecution("q", first.token!, 0);
      expect((await storage.tryRecordExecution("q", { ...ten, weight: 5 })).granted).toBe(true);
      await storage.settleExecution("q", second.token!, 12);
      expect(await storage.tryRecordExecution("q", ten)).toMatchObject({ granted: false, retryInMs: 1_000 });
    });

    it("a late settle may be repeated and is charged once, and a cancelled start stays cancelled", async () => {
      const { storage, clock } = await open();
      const hundred = { maxExecutions: 100, windowMs: 1_000 };
      const late = await storage.tryRecordExecution("q", { ...hundred, weight: 50 });
      await clock.advance(2_000);
      for (let i = 0; i < 3; i++) await storage.settleExecution("q", late.token!, 80);
      expect((await storage.tryRecordExecution("q", { ...hundred, weight: 70 })).granted).toBe(true);
      expect((await storage.tryRecordExecution("q", hundred)).granted).toBe(false);
      const cancelled = await storage.tryRecordExecution("other", hundred);
      await storage.cancelExecution("other", cancelled.token!);
      await storage.settleExecution("other", cancelled.token!, 100);
      expect((await storage.tryRecordExecution("other", { ...hundred, weight: 100 })).granted).toBe(true);
    });

    it("two windows may share one name, each with its own number", async () => {
      const { storage, clock } = await open();
      const slow = { maxExecutions: 4, windowMs: 10_000 };
      for (let i = 0; i < 3; i++) expect((await storage.tryRecordExecution("q", rule)).granted).toBe(true);
      expect((await storage.tryRecordExecution("q", slow)).granted).toBe(true);
      expect((await storage.tryRecordExecution("q", rule)).retryInMs).toBe(1_000);
      expect((await storage.tryRecordExecution("q", slow)).retryInMs).toBe(10_000);
      await clock.advance(1_000);
      expect((await storage.tryRecordExecution("q", slow)).retryInMs).toBe(9_000);
      expect((await storage.tryRecordExecution("q", rule)).granted).toBe(true);
    });

    it("clear removes everything under a name, and nothing under another", async () => {
      const { storage, clock } = await open();
      const before = await storage.tryRecordExecution("q", rule);
      await storage.recordExecution("other");
      await storage.setNextAvailableTime("q", new Date(clock.wall() + 5_000).toISOString());
      await storage.clear("q");
      expect(await storage.getExecutionCount("q", epoch)).toBe(0);
      expect(await storage.getNextAvailableTime("q")).toBeUndefined();
      expect(await storage.getExecutionCount("other", epoch)).toBe(1);
      await storage.tryRecordExecution("q", rule);
      await storage.cancelExecution("q", before.token!);
      expect(await storage.getExecutionCount("q", epoch)).toBe(1);
    });

    it("no window ever has more starts than fit", async () => {
      const step = fc.record({ after: fc.integer({ min: 0, max: 400 }), weight: fc.integer({ min: 1, max: 3 }) });
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
          const { storage, clock } = await open();
          const starts: { at: number; weight: number }[] = [];
          for (const { after, weight } of steps) {
            await clock.advance(after);
            const { granted, retryInMs } = await storage.tryRecordExecution("q", { ...rule, weight });
            if (granted) starts.push({ at: clock.now(), weight });
            else expect(retryInMs).toBeGreaterThan(0);
          }
          for (const { at } of starts) {
            const inside = starts.filter((start) => start.at > at - 1_000 && start.at <= at);
            expect(inside.reduce((sum, { weight }) => sum + weight, 0)).toBeLessThanOrEqual(3);
          }
        }),
        { numRuns: 50 },
      );
    });

    it("invalid arguments are refused", async () => {
      const { storage } = await open();
      await expect(storage.tryRecordExecution("q", { ...rule, weight: 4 })).rejects.toThrow(/`weight`/);
      await expect(storage.tryRecordExecution("q", { ...rule, weight: -1 })).rejects.toThrow(/`weight`/);
      await expect(storage.tryRecordExecution("q", { ...rule, windowMs: 0 })).rejects.toThrow(/`windowMs`/);
      await expect(storage.tryRecordExecution("", rule)).rejects.toThrow(/`queueName`/);
      await expect(storage.getExecutionCount("q", "yesterday")).rejects.toThrow(/`windowStartTime`/);
      await expect(storage.setNextAvailableTime("q", "soon")).rejects.toThrow(/`nextAvailableAt`/);
      await expect(storage.getOldestExecutionAtOffset("q", -1)).rejects.toThrow(/`offset`/);
    });
  });
}
