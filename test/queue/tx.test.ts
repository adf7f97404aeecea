import { describe, expect, it } from "vitest";
import { JobQueueClient, type JobStorage, MemoryStorage, OptionsError, Queue } from "../../src/index.ts";
import { SqliteStorage } from "../../src/storages/sqlite/storage.ts";
import { faultyStorage } from "../../src/testing/index.ts";

/** A storage that writes down which transactions it was given. */
function listening(): { readonly storage: JobStorage; readonly given: unknown[][] } {
  const memory = new MemoryStorage();
  const given: unknown[][] = [];
  const add: JobStorage["add"] = (jobs, ...rest) => {
    given.push(rest);
    return memory.add(jobs);
  };
  const storage = new Proxy(memory, {
    get: (target, name) => {
      if (name === "add") return add;
      const member: unknown = Reflect.get(target, name, target);
      return typeof member === "function" ? (member.bind(target) as unknown) : member;
    },
  });
  return { storage, given };
}

const tx = { query: () => {} };

describe("a transaction of the user's", () => {
  it("a transaction is passed to the storage by add and by addBulk", async () => {
    const { storage, given } = listening();
    const queue = new Queue("q", { storage });
    await queue.add("t", 1);
    const job = await queue.add("t", 1, { tx, priority: 3 });
    expect(job.created).toBe(true);
    await queue.addBulk(
      [
        { type: "t", data: 1 },
        { type: "t", data: 2 },
      ],
      { tx },
    );
    await queue.addBulk([{ type: "t", data: 1 }]);
    expect(given).toEqual([[], [tx], [tx], []]);
    expect(given[1]![0]).toBe(tx);
    expect((await job.info())!.priority).toBe(3);
  });

  it("a transaction is passed to the storage by JobQueueClient", async () => {
    const { storage, given } = listening();
    const client = new JobQueueClient({ storage, queueName: "q" });
    await client.submit({ a: 1 }, { tx });
    await client.submitBatch([{ a: 1 }, { a: 2 }], { tx, priority: 2 });
    expect(given).toEqual([[tx], [tx]]);
  });

  it("a transaction is passed on by a faulty storage", async () => {
    const { storage, given } = listening();
    const faulty = faultyStorage(storage, ({ nth }) => (nth === 1 ? { kind: "fail-before" } : undefined));
    const queue = new Queue("q", { storage: faulty });
    await expect(queue.add("t", 1, { tx })).rejects.toThrow("as planned");
    await queue.add("t", 1, { tx });
    expect(given).toEqual([[tx]]);
  });

  it.each<[string, () => JobStorage]>([
    ["MemoryStorage", () => new MemoryStorage()],
    ["SqliteStorage", () => new SqliteStorage(":memory:")],
  ])("a transaction is refused by a %s, which adds nothing", async (name, open) => {
    const storage = open();
    const queue = new Queue("q", { storage });
    const calls = { add: queue.add("t", 1, { tx }), addBulk: queue.addBulk([{ type: "t", data: 1 }], { tx }) };
    for (const [call, refused] of Object.entries(calls)) {
      await expect(refused).rejects.toThrow(OptionsError);
      await expect(refused).rejects.toThrow(
        `${call}: expected \`tx\` to be left out, got an object; a ${name} cannot take part in a transaction of yours; a PostgresStorage (sluice/postgres) can`,
      );
    }
    expect((await queue.counts()).waiting).toBe(0);
    await storage.close();
  });

  it("a transaction is given for all jobs of a bulk together", async () => {
    const queue = new Queue("q", { storage: listening().storage });
    // What the types refuse is refused without them as well.
    const entries = [{ type: "t", data: 1, options: { tx } as object }];
    await expect(queue.addBulk(entries)).rejects.toThrow("addBulk: expected `tx` to be given for all jobs together");
    await expect(queue.addBulk([], { xt: tx } as object)).rejects.toThrow("did you mean `tx`?");
  });

  it.each([5, "tx", null, true])("a transaction cannot be %j", async (wrong) => {
    const queue = new Queue("q", { storage: listening().storage });
    await expect(queue.add("t", 1, { tx: wrong as never })).rejects.toThrow("expected `tx` to be an open transaction");
    await expect(queue.addBulk([], { tx: wrong as never })).rejects.toThrow("expected `tx` to be an open transaction");
  });

  it("a transaction may be undefined", async () => {
    const { storage, given } = listening();
    await new Queue("q", { storage }).add("t", 1, { tx: undefined });
    expect(given).toEqual([[]]);
  });
});
