import type { Data, QueueContender } from "./bench.ts";
import { load, type WorkglowServer } from "./peers.ts";

export const workglow: QueueContender = {
  name: "workglow in memory",
  role: "peer",
  note: "as many of its workers as run at the same time",
  atMost: 200,
  async create(_file, workerCount) {
    const { InMemoryQueueStorage, Job, JobQueueClient, JobQueueServer } = await load("@workglow/job-queue");
    const storage = new InMemoryQueueStorage("bench");
    const client = new JobQueueClient({ storage, queueName: "bench" });
    let server: WorkglowServer | undefined;
    const start = async (handle: (data: Data) => void, completed: () => void) => {
      class BenchJob extends Job {
        async execute(data: Data): Promise<object> {
          handle(data);
          return {};
        }
      }
      server = new JobQueueServer(BenchJob, { storage, queueName: "bench", workerCount });
      client.attach(server);
      server.on("job_complete", completed);
      await server.start();
    };
    return {
      add: (data) => client.send(data),
      addMany: (data) => client.sendBatch(data),
      drain: (jobs) =>
        new Promise((resolve, reject) => {
          let left = jobs;
          const completed = () => {
            left -= 1;
            if (left === 0) resolve();
          };
          start(() => {}, completed).catch(reject);
        }),
      serve: (handle) => start(handle, () => {}),
      close: async () => void (await server?.stop()),
    };
  },
};

export const betterQueue: QueueContender = {
  name: "better-queue in memory",
  role: "peer",
  note: "its delays set to 0",
  noBulk: "it adds one job at a time",
  atMost: 500,
  async create(_file, concurrent) {
    const { default: BetterQueue } = await load("better-queue");
    let handle: (data: Data) => void = () => {};
    const process = (data: unknown, done: (error: null) => void) => {
      handle(data as Data);
      done(null);
    };
    const queue = new BetterQueue(process, { concurrent, afterProcessDelay: 0, batchDelay: 0 });
    queue.pause();
    const add = (data: Data) => new Promise<void>((resolve) => queue.push(data).on("accepted", resolve));
    return {
      add,
      addMany: (data) => Promise.all(data.map(add)),
      drain: () =>
        new Promise((resolve) => {
          queue.on("drain", resolve);
          queue.resume();
        }),
      async serve(given) {
        handle = given;
        queue.resume();
      },
      close: () => new Promise((resolve) => queue.destroy(resolve)),
    };
  },
};

const BOUND = "a line of functions: no ids, states or second tries, so it only bounds what is possible";

export const fastq: QueueContender = {
  name: "fastq",
  role: "aside",
  note: BOUND,
  async create(_file, concurrency) {
    const { default: Fastq } = await load("fastq");
    let handle: (data: Data) => void = () => {};
    const queue = Fastq.promise(async (data) => handle(data as Data), concurrency);
    queue.pause();
    return {
      async add(data) {
        void queue.push(data);
      },
      async addMany(data) {
        for (const one of data) void queue.push(one);
      },
      async drain() {
        queue.resume();
        await queue.drained();
      },
      async serve(given) {
        handle = given;
        queue.resume();
      },
      close: async () => {},
    };
  },
};

export const pQueue: QueueContender = {
  name: "p-queue",
  role: "aside",
  note: BOUND,
  async create(_file, concurrency) {
    const { default: PQueue } = await load("p-queue");
    let handle: (data: Data) => void = () => {};
    const queue = new PQueue({ concurrency, autoStart: false });
    return {
      async add(data) {
        void queue.add(async () => handle(data));
      },
      async addMany(data) {
        for (const one of data) void queue.add(async () => handle(one));
      },
      async drain() {
        queue.start();
        await queue.onIdle();
      },
      async serve(given) {
        handle = given;
        queue.start();
      },
      close: async () => {},
    };
  },
};
