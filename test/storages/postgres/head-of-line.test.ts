import { expect, onTestFinished, test } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { Queue, Worker, type WorkerOptions } from "../../../src/index.ts";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { until } from "./office.ts";
import { temporaryDatabase } from "./server.ts";

const MANY = 10_000;
const FEW = 10;
const WITHIN_MS = 1_000;

interface Case {
  readonly what: string;
  readonly limits: NonNullable<WorkerOptions["limits"]>;
  readonly full: { readonly type: string; readonly group?: string };
  readonly free: { readonly type: string; readonly group?: string };
}

const cases: readonly Case[] = [
  {
    what: "a group",
    limits: { tenant: { max: FEW, per: "1h", by: "group" } },
    full: { type: "t", group: "full" },
    free: { type: "t", group: "free" },
  },
  {
    what: "a group without slots",
    limits: { seats: { concurrency: 0, by: "group", overrides: { free: { concurrency: FEW } } } },
    full: { type: "t", group: "full" },
    free: { type: "t", group: "free" },
  },
  {
    what: "a type",
    limits: { service: { max: FEW, per: "1h", types: ["full"] } },
    full: { type: "full" },
    free: { type: "free" },
  },
];

test.each(cases)(
  "$what that its limit keeps back does not hold up other jobs, however many wait in front",
  async (one) => {
    const { limits, full, free } = one;
    const url = await temporaryDatabase();
    const storage = new PostgresStorage(url);
    const queue = new Queue("q", { storage });
    const entries = ({ type, group }: Case["full"], length: number) =>
      Array.from({ length }, () => ({ type, data: {}, options: group === undefined ? {} : { group } }));
    for (let added = 0; added < MANY; added += 2_500) await queue.addBulk(entries(full, 2_500));
    const started: string[] = [];
    const worker = new Worker("q", async ({ type, group }) => void started.push(group ?? type), {
      storage,
      limits,
      concurrency: 20,
    });
    onTestFinished(async () => {
      await worker.stop();
      await storage.close();
    });
    await worker.start();
    const filled = "concurrency" in Object.values(limits)[0]! ? 0 : FEW;
    await until(() => started.length >= filled, 5_000, "the limit is full");
    started.length = 0;
    const before = systemClock.now();
    await queue.addBulk(entries(free, FEW));
    await until(() => started.length >= FEW, WITHIN_MS, "the others have started");
    expect(systemClock.now() - before).toBeLessThan(WITHIN_MS);
    expect(started).toEqual(Array.from({ length: FEW }, () => "free"));
  },
);
