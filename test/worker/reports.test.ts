import { expect, it } from "vitest";
import { faultyStorage } from "../../src/testing/index.ts";
import { open, work } from "./support.ts";

it("reports of other jobs do not hold up a job that has ended", async () => {
  const house = open();
  const storage = faultyStorage(
    house.storage,
    ({ member }) => (member === "report" ? { kind: "delay", ms: 4 } : undefined),
    { clock: house.clock },
  );
  let quickRuns = 0;
  const { worker } = work(
    house,
    {
      chatty: async (_job, context) => {
        for (let i = 0; i < 500; i++) {
          await context.updateProgress(1);
          await new Promise<void>((resolve) => house.clock.after(2, resolve));
        }
      },
      quick: async (_job, context) => {
        quickRuns += 1;
        await context.log("hi");
      },
    },
    { storage, concurrency: 5, lease: 400 },
  );
  await house.queue.addBulk([1, 2, 3, 4].map((data) => ({ type: "chatty", data })));
  const quick = await house.queue.add("quick", null);
  await house.clock.advance(50);
  expect(await quick.info()).toMatchObject({ state: "completed" });
  expect(quickRuns).toBe(1);
  const stopped = worker.stop({ timeout: 0 });
  await house.clock.advance(10_000);
  await stopped;
});

it("a report that is not awaited may fail", async () => {
  const house = open();
  const storage = faultyStorage(house.storage, ({ member }) =>
    member === "report" ? { kind: "fail-before" } : undefined,
  );
  const { worker } = work(
    house,
    async (_job, context) => {
      void context.log("not awaited");
      void context.updateProgress(50);
      return "done";
    },
    { storage },
  );
  expect(await (await house.queue.add("t", null)).result()).toBe("done");
  await worker.stop();
});

it("a report keeps its details as they were, though the handler changes the object afterwards", async () => {
  const house = open();
  const { worker } = work(house, async (_job, context) => {
    const details: Record<string, unknown> = { left: 1 };
    const reported = context.updateProgress(50, "half", details);
    details["left"] = 10n;
    await reported;
  });
  const job = await house.queue.add("t", null);
  await job.result();
  expect((await job.info())?.progress).toEqual({ percent: 50, message: "half", details: { left: 1 } });
  await worker.stop();
});
