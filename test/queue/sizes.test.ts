import { describe, expect, it } from "vitest";
import { JobQueueClient, MemoryStorage, OptionsError, Queue, type QueueOptions } from "../../src/index.ts";

const MEBIBYTE = 2 ** 20;

function open(options: Partial<QueueOptions<Record<string, { data: unknown; result: unknown }>>> = {}) {
  const storage = new MemoryStorage();
  return { storage, queue: new Queue("q", { storage, ...options }) };
}

/** Jobs whose data has so many characters as JSON, each. */
const large = (n: number, length: number) => {
  const data = "x".repeat(length - 2);
  return Array.from({ length: n }, () => ({ type: "t", data }));
};

describe("the data of a job", () => {
  it("has at most 16 MiB, whatever is said", () => {
    expect(() => open({ maxDataBytes: 16 * MEBIBYTE })).not.toThrow();
    for (const maxDataBytes of [16 * MEBIBYTE + 1, 0, 1.5, Infinity, "1MB" as unknown as number]) {
      expect(() => open({ maxDataBytes })).toThrow(
        expect.objectContaining({ option: "maxDataBytes", expected: expect.stringContaining("16 MiB") }),
      );
    }
  });

  it("may be as large as that", async () => {
    const { queue } = open({ maxDataBytes: 16 * MEBIBYTE });
    const [{ data, type }] = large(1, 16 * MEBIBYTE) as [{ data: string; type: string }];
    const job = await queue.add(type, data);
    expect((await job.info())?.data).toHaveLength(16 * MEBIBYTE - 2);
    await expect(queue.add(type, `${data}x`)).rejects.toThrow(OptionsError);
  });
});

describe("addBulk", () => {
  it("takes 64 MiB of data in one call", async () => {
    const { queue } = open();
    expect(await queue.addBulk(large(64, MEBIBYTE))).toHaveLength(64);
  });

  it("refuses more than that as a whole, and says how to split it", async () => {
    const { queue } = open();
    const refused = expect.objectContaining({
      name: "OptionsError",
      option: "entries",
      message: expect.stringMatching(/64 MiB.*several calls.*`tx`/s),
    });
    await expect(queue.addBulk(large(65, MEBIBYTE))).rejects.toThrow(refused);
    expect(await queue.counts()).toMatchObject({ waiting: 0 });
  });

  it("counts what a schema makes of the data, too", async () => {
    const longer = {
      "~standard": { version: 1, vendor: "test", validate: () => ({ value: "x".repeat(MEBIBYTE - 2) }) },
    };
    const { queue } = open({ schemas: { t: longer } });
    const entries = Array.from({ length: 65 }, () => ({ type: "t", data: "" }));
    await expect(queue.addBulk(entries)).rejects.toThrow(/64 MiB/);
    expect(await queue.addBulk(entries.slice(1))).toHaveLength(64);
  });
});

describe("pages of large jobs", () => {
  it("are shorter than asked for, and miss nothing", async () => {
    const { queue } = open();
    await queue.addBulk(large(10, MEBIBYTE));
    const seen: string[] = [];
    for (let cursor: string | undefined, pages = 0; pages < 100; pages++) {
      const page = await queue.list({ limit: 1_000, cursor });
      expect(page.jobs.length).toBeLessThanOrEqual(4);
      seen.push(...page.jobs.map(({ id }) => id));
      cursor = page.cursor;
      if (cursor === undefined) break;
    }
    expect(new Set(seen).size).toBe(10);
    expect(seen).toHaveLength(10);
  });

  it("are put together by `peek`, which has no cursor", async () => {
    const { queue, storage } = open();
    await queue.addBulk(large(10, MEBIBYTE));
    const client = new JobQueueClient({ storage, queueName: "q", type: "t" });
    expect(await client.peek()).toHaveLength(10);
    expect(await client.peek("waiting", 7)).toHaveLength(7);
  });
});
