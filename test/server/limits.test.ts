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
const FAST = defineLimits({ api: { max: 9, per: "1s", all: true } });

describe("the limits of a server", () => {
  it("are declared, and one for all of its workers", async () => {
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

  it("in other words than before: it does not start, says why, and can be started once that is mended", async () => {
    const clock = new FakeClock();
    const storage = new MemoryStorage({ clock });
    await storage.limits.define(SLOW.rules);
    const { GatedJob, seen, end } = gated();
    const errors: unknown[] = [];
    const onError = (error: unknown) => void errors.push(error);
    const options = { storage, queueName: "q", clock, limits: FAST, workerCount: 2, onError };
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
    // One that is added when somebody else has declared something new is refused, and the others go on.
    await storage.limits.define(SLOW.rules);
    await expect(server.scaleWorkers(3)).rejects.toThrow(LimitConflictError);
    await client.submit(7);
    await clock.advance(1_000);
    expect(seen.started).toHaveLength(3);
    end();
    await clock.advance(0);
    await server.stop();
  });

  it("let a job of a class tell what it really used", async () => {
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
