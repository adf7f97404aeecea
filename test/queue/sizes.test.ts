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
  it("the data of a job has at most 16 MiB, whatever `maxDataBytes` is", () => {
    expect(() => open({ maxDataBytes: 16 * MEBIBYTE })).not.toThrow();
    for (const maxDataBytes of [16 * MEBIBYTE + 1, 0, 1.5, Infinity, "1MB" as unknown as number]) {
      expect(() => open({ maxDataBytes })).toThrow(
        expect.objectContaining({ option: "maxDataBytes", expected: expect.stringContaining("16 MiB") }),
      );
    }
  });

  it("the data of a job may have 16 MiB", async () => {
    const { queue } = open({ maxDataBytes: 16 * MEBIBYTE });
    const [{ data, type }] = large(1, 16 * MEBIBYTE) as [{ data: string; type: string }];
    const job = await queue.add(type, data);
    expect((await job.info())?.data).toHaveLength(16 * MEBIBYTE - 2);
    await expect(queue.add(type, `${data}x`)).rejects.toThrow(OptionsError);
  });
});

describe("addBulk", () => {
  it("addBulk() accepts 64 MiB of data in one call", async () => {
    const { queue } = open();
    expect(await queue.addBulk(large(64, MEBIBYTE))).toHaveLength(64);
  });

  it("addBulk() refuses more than 64 MiB as a whole, and says how to split it", async () => {
    const { queue } = open();
    const refused = expect.objectContaining({
      name: "OptionsError",
      option: "entries",
      message: expect.stringMatching(/64 MiB.*several calls.*`tx`/s),
    });
    await expect(queue.addBulk(large(65, MEBIBYTE))).rejects.toThrow(refused);
    expect(await queue.counts()).toMatchObject({ waiting: 0 });
  });

  it("addBulk() counts the output of schemas, too", async () => {
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
  it("pages of large jobs are shorter than their limit, and miss no job", async () => {
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

  it("peek() reads several pages of large jobs", async () => {
    const { queue, storage } = open();
    await queue.addBulk(large(10, MEBIBYTE));
    const client = new JobQueueClient({ storage, queueName: "q", type: "t" });
    expect(await client.peek()).toHaveLength(10);
    expect(await client.peek("waiting", 7)).toHaveLength(7);
  });
});
