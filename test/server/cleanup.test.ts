import { describe, expect, it } from "vitest";
import { type IJobExecuteContext, Job, MemoryStorage, PermanentJobError, StorageError } from "../../src/index.ts";
import { numbers, open } from "./support.ts";

class Any extends Job<string, string> {
  async execute(input: string, { signal }: IJobExecuteContext): Promise<string> {
    if (input === "dead") throw new PermanentJobError("no");
    if (input === "runs") {
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    }
    return input;
  }
}

describe("clean-up", () => {
  it("clean-up removes each kind of ended job at its age, and nothing else", async () => {
    const { clock, storage, server, client } = await open(Any, {
      workerCount: 4,
      deleteAfterCompletionMs: 60_000,
      deleteAfterFailureMs: "5m",
      deleteAfterDisabledMs: 120_000,
      cleanupIntervalMs: 1_000,
    });
    const [fine, dead, runs] = await client.submitBatch(["fine", "dead", "runs"]);
    const later = await client.submit("later", { delay: "1h" });
    const cancelled = await client.submit("cancelled", { delay: "1h" });
    await cancelled.abort();
    await clock.advance(0);

    const there = async () =>
      (await storage.find([fine, dead, cancelled, runs, later].map((job) => job!.id))).map(Boolean);
    await clock.advance(59_000);
    expect(await there()).toEqual([true, true, true, true, true]);
    await clock.advance(2_000);
    expect(await there()).toEqual([false, true, true, true, true]);
    await clock.advance(58_000);
    expect(await there()).toEqual([false, true, true, true, true]);
    await clock.advance(2_000);
    expect(await there()).toEqual([false, true, false, true, true]);
    await clock.advance(180_000);
    expect(await there()).toEqual([false, false, false, true, true]);
    await Promise.all([server.stop({ timeout: 0 }), clock.advance(1_000)]);
  });

  it("clean-up removes any number of jobs in small steps when the server starts", async () => {
    const { clock, storage, server, client } = await open(Any);
    await client.submitBatch(numbers(1_200).map(String));
    while ((await client.size("completed")) < 1_200) await clock.advance(1);
    await server.stop();

    const steps: number[] = [];
    const change = storage.change.bind(storage);
    storage.change = async (wanted) => {
      const changed = await change(wanted);
      steps.push(changed.length);
      return changed;
    };
    const again = await open(Any, { storage, deleteAfterCompletionMs: 0 }, clock);
    await clock.advance(0);
    expect(steps).toEqual([500, 500, 200]);
    expect(await client.size("completed")).toBe(0);
    await clock.advance(10_000);
    expect(steps).toHaveLength(4);
    await again.server.stop();
    expect(clock.timers).toBe(0);
    await clock.advance(60_000);
    expect(steps).toHaveLength(4);
  });

  it("clean-up has ended when the server has stopped, even if it was running", async () => {
    const { clock, storage, server, client } = await open(Any, { deleteAfterCompletionMs: 0 });
    await client.submitBatch(numbers(700).map(String));
    while ((await client.size("completed")) < 700) await clock.advance(1);
    const change = storage.change.bind(storage);
    const step = Promise.withResolvers<void>();
    storage.change = async (wanted) => {
      await step.promise;
      return change(wanted);
    };
    await clock.advance(10_000);
    const stopped = server.stop();
    step.resolve();
    await stopped;
    expect(clock.timers).toBe(0);
    await clock.advance(60_000);
    expect(await client.size("completed")).toBe(200);
  });

  it("clean-up does not remove jobs in states without an age", async () => {
    const { clock, server, client } = await open(Any, { deleteAfterFailureMs: 0, cleanupIntervalMs: 10 });
    await client.submit("fine");
    await clock.advance(60_000);
    expect(await client.size("completed")).toBe(1);
    await server.stop();
  });

  it("clean-up makes no call if no age is set", async () => {
    class Watched extends MemoryStorage {
      changes = 0;
      override change(...args: Parameters<MemoryStorage["change"]>) {
        this.changes += 1;
        return super.change(...args);
      }
    }
    const storage = new Watched();
    const { clock, server } = await open(Any, { storage, cleanupIntervalMs: 10 });
    await clock.advance(1_000);
    expect(storage.changes).toBe(0);
    await server.scaleWorkers(0);
    expect(clock.timers).toBe(0);
    await server.stop();
  });

  it("clean-up tries again after the storage failed", async () => {
    const scene = await open(Any, { deleteAfterCompletionMs: 0, cleanupIntervalMs: 1_000 });
    const { clock, storage, server, client, errors } = scene;
    await client.submit("fine");
    const change = storage.change.bind(storage);
    storage.change = () => Promise.reject(new StorageError("busy"));
    await clock.advance(2_500);
    expect(errors).toHaveLength(2);
    storage.change = change;
    await clock.advance(1_000);
    expect(await client.size("completed")).toBe(0);
    await server.stop();
  });
});
