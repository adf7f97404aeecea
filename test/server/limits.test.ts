import { describe, expect, it } from "vitest";
import {
  defineLimits,
  type IJobExecuteContext,
  Job,
  JobQueueClient,
  JobQueueServer,
  LimitConflictError,
  MemoryStorage,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";
import { gated, numbers, open } from "./support.ts";

const SLOW = defineLimits({ api: { max: 2, per: "1s", all: true } });
const FAST = { api: { max: 9, per: "1s", all: true } } as const;

describe("the limits of a server", () => {
  it("the limits of a server are declared, and shared by all its workers", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, client, server, errors } = await open(GatedJob, { workerCount: 3, concurrency: 2, limits: SLOW });
    await client.submitBatch(numbers(6));
    await clock.advance(999);
    expect(seen.started).toHaveLength(2);
    await clock.advance(1_000);
    expect(seen.started).toHaveLength(4);
    end(4);
    await clock.advance(0);
    await server.stop();
    expect(errors).toEqual([]);
  });

  it('with onConflict "reject" a server does not start on a conflict, reports it, and can be started once that is resolved', async () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    await storage.limits.define(SLOW.rules);
    const { GatedJob, seen, end } = gated();
    const errors: unknown[] = [];
    const rejected = defineLimits(FAST, { onConflict: "reject" });
    const onError = (error: unknown) => void errors.push(error);
    const options = { storage, queueName: "q", clock, limits: rejected, workerCount: 2, onError };
    const server = new JobQueueServer(GatedJob, options);
    const client = new JobQueueClient<number, number>({ storage, queueName: "q", clock });
    await client.submitBatch(numbers(2));
    await expect(server.start()).rejects.toThrow(LimitConflictError);
    expect(errors).toEqual([expect.any(LimitConflictError), expect.any(LimitConflictError)]);
    expect(server.isRunning()).toBe(false);
    await clock.advance(60_000);
    expect([seen.started, clock.timers]).toEqual([[], 0]);
    await storage.limits.remove("api");
    await server.start();
    await clock.advance(1);
    expect(seen.started).toHaveLength(2);
    end(2);
    await clock.advance(1);
    await server.stop();
  });

  it.each(["before", "after"])(
    "a server that has no workers at first, by scaling %s its start, declares its limits with its first worker",
    async (when) => {
      const clock = new FakeClock();
      const storage = new MemoryStorage({ clock });
      const { GatedJob, seen, end } = gated();
      const server = new JobQueueServer(GatedJob, { storage, queueName: "q", clock, concurrency: 9, limits: SLOW });
      const client = new JobQueueClient<number, number>({ storage, queueName: "q", clock });
      await client.submitBatch(numbers(6));
      if (when === "before") await server.scaleWorkers(0);
      const started = server.start();
      await server.scaleWorkers(0);
      await started;
      await server.scaleWorkers(2);
      await clock.advance(999);
      expect(seen.started).toHaveLength(2);
      end(2);
      await clock.advance(0);
      await server.stop();
    },
  );

  it("a worker that is added later does not declare the limits of its server again", async () => {
    const { GatedJob, seen, end } = gated();
    const { clock, storage, client, server, errors } = await open(GatedJob, { concurrency: 9, limits: FAST });
    await storage.limits.define(SLOW.rules);
    await server.scaleWorkers(3);
    await client.submitBatch(numbers(6));
    await clock.advance(1);
    expect(seen.started).toHaveLength(2);
    const [state] = await storage.limits.read({ name: "api", group: null });
    expect([state!.rule.quota.max, state!.revision]).toEqual([2, 2]);
    end(2);
    await clock.advance(0);
    await server.stop();
    // Started again it is the newest.
    await server.start();
    expect((await storage.limits.read({ name: "api", group: null }))[0]!.rule.quota.max).toBe(9);
    await clock.advance(0);
    end(9);
    await clock.advance(0);
    await server.stop();
    expect(errors).toEqual([]);
  });

  it("a job class can settle the weights it really used", async () => {
    class Chat extends Job<number, void> {
      async execute(input: number, { settle }: IJobExecuteContext): Promise<void> {
        await settle({ tokens: input });
      }
    }
    const limits = defineLimits({ tokens: { max: 100, per: "1m", weight: "tokens", estimate: 60, all: true } });
    const { clock, storage, client, server } = await open(Chat, { concurrency: 5, limits });
    await client.submitBatch([10, 20, 30]);
    await clock.advance(1);
    const [state] = await storage.limits.read({ name: "tokens", group: null });
    expect(state!.states[0]!.used).toBe(60);
    expect(await client.size("completed")).toBe(3);
    await server.stop();
  });
});
