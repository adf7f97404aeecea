import { type JobStorage, MemoryStorage, Queue, Worker } from "../../dist/index.js";
import { SqliteStorage } from "../../dist/storages/sqlite/index.js";
import type { Bench, Data, QueueContender } from "./bench.ts";

type Jobs = { bench: { data: Data; result: unknown } };

class SluiceQueue implements Bench {
  readonly #storage: JobStorage;
  readonly #queue: Queue<Jobs>;
  readonly #concurrency: number;
  readonly #prefetch: boolean;
  #worker: Worker | undefined;

  constructor(storage: JobStorage, concurrency: number, prefetch = true) {
    this.#storage = storage;
    this.#concurrency = concurrency;
    this.#prefetch = prefetch;
    this.#queue = new Queue<Jobs>("bench", { storage });
  }

  add(data: Data): Promise<unknown> {
    return this.#queue.add("bench", data);
  }

  addMany(data: readonly Data[]): Promise<unknown> {
    return this.#queue.addBulk(data.map((one) => ({ type: "bench", data: one })));
  }

  async drain(jobs: number): Promise<void> {
    this.#work(() => {});
    await this.#worker!.onIdle();
    const { completed } = await this.#queue.counts();
    if (completed !== jobs) throw new Error(`${completed} of ${jobs} jobs are completed`);
  }

  async serve(handle: (data: Data) => void): Promise<void> {
    this.#work(handle);
    await this.#worker!.start();
  }

  async close(): Promise<void> {
    await this.#worker?.stop();
    await this.#storage.close();
  }

  #work(handle: (data: Data) => void): void {
    const options = { storage: this.#storage, concurrency: this.#concurrency, prefetch: this.#prefetch };
    this.#worker = new Worker("bench", async ({ data }: { data: Data }) => handle(data), options);
  }
}

export const onSqlite: QueueContender = {
  name: "sluice on SqliteStorage",
  role: "sluice",
  async create(file, concurrency) {
    const storage = new SqliteStorage(file);
    await storage.setup();
    return new SluiceQueue(storage, concurrency);
  },
};

/** The same with a transaction for as many jobs as run at the same time, as the driver by hand has it. */
export const onSqliteAlike: QueueContender = {
  name: "sluice on SqliteStorage, prefetch: false",
  role: "aside",
  note: "claims only what can run, as the driver by hand",
  async create(file, concurrency) {
    const storage = new SqliteStorage(file);
    await storage.setup();
    return new SluiceQueue(storage, concurrency, false);
  },
};

export const inMemory: QueueContender = {
  name: "sluice on MemoryStorage",
  role: "sluice",
  create: async (_file, concurrency) => new SluiceQueue(new MemoryStorage(), concurrency),
};
