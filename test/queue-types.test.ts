import { describe, expect, expectTypeOf, it } from "vitest";
import {
  type IJobExecuteContext,
  Job,
  type JobClass,
  type JobContext,
  type JobDetails,
  type JobHandle,
  JobQueueClient,
  JobQueueServer,
  type JobView,
  MemoryStorage,
  Queue,
  type QueueDefaults,
  type QueuedJob,
  Worker,
} from "../src/index.ts";

interface Mail {
  readonly to: string;
  readonly subject?: string;
}

/* As an interface, which has no index signature: the way most people would write it. */
interface Jobs {
  send_email: { data: Mail; result: { messageId: string } };
  resize: { data: { width: number }; result: void };
  ping: { data: null };
}

const storage = new MemoryStorage();
const queue = new Queue<Jobs>("mail", { storage });

/* Checked by the compiler (`npm run check`); that they also run proves only that nothing throws. */
describe("types of a queue", () => {
  it("types of a queue say which types of jobs may have defaults of their own", () => {
    const defaults: QueueDefaults<Jobs> = { timeout: "1m", send_email: { maxAttempts: 3 } };
    const made = [
      new Queue<Jobs>("mail", { storage, defaults }),
      new Worker<Jobs>("mail", { ping: () => {} }, { storage, defaults, autostart: false }),
      new Queue("mail", { storage, defaults: { maxAttempts: 3, anything: { priority: 1 } } }),
      // @ts-expect-error -- there is no such type
      new Queue<Jobs>("mail", { storage, defaults: { send_mail: { maxAttempts: 3 } } }),
    ];
    expect(made).toHaveLength(4);
  });

  it("types of a queue say what data a type takes, and what result it has", async () => {
    const job = await queue.add("send_email", { to: "ada@example.com" });
    expectTypeOf(job).toEqualTypeOf<QueuedJob<Mail, { messageId: string }>>();
    expectTypeOf(job.data).toEqualTypeOf<Mail>();
    expectTypeOf(job.result()).toEqualTypeOf<Promise<{ messageId: string }>>();
    const resized = await queue.add("resize", { width: 1 });
    expectTypeOf(resized.result()).toEqualTypeOf<Promise<void>>();
    const ping = await queue.add("ping", null);
    expectTypeOf(ping.result()).toEqualTypeOf<Promise<unknown>>();
  });

  it("types of a queue refuse an unknown type, and data of another type", async () => {
    // @ts-expect-error -- misspelt
    await queue.add("send_emial", { to: "ada@example.com" });
    // @ts-expect-error -- another type's data
    await queue.add("send_email", { width: 1 });
    // @ts-expect-error -- nothing at all
    await queue.add("resize", null);
    await expect(
      // @ts-expect-error -- misspelt
      queue.add("resize", { width: 1 }, { delya: 5 }),
    ).rejects.toThrow();
    await expect(
      // @ts-expect-error -- no duration
      queue.add("resize", { width: 1 }, { delay: "soon" }),
    ).rejects.toThrow();
    await expect(
      // @ts-expect-error -- no transaction
      queue.add("resize", { width: 1 }, { tx: "BEGIN" }),
    ).rejects.toThrow();
    await expect(
      // @ts-expect-error -- it is one for all of them
      queue.addBulk([{ type: "resize", data: { width: 1 }, options: { tx: {} } }]),
    ).rejects.toThrow();
    // @ts-expect-error -- misspelt
    await queue.pause("send_emial");
  });

  it("types of a queue apply to many jobs at once", async () => {
    const jobs = await queue.addBulk([
      { type: "send_email", data: { to: "ada@example.com" } },
      { type: "resize", data: { width: 1 }, options: { priority: 1 } },
    ]);
    expectTypeOf(jobs[0]!.data).toEqualTypeOf<Mail | { width: number } | null>();
    // @ts-expect-error -- one type's name with another's data
    await queue.addBulk([{ type: "send_email", data: { width: 1 } }]);
  });

  it("types of a queue apply to jobs that are looked up", async () => {
    const { jobs } = await queue.list();
    expectTypeOf(jobs[0]!.data).toEqualTypeOf<Mail | { width: number } | null>();
    const info = await (await queue.add("send_email", { to: "x" })).info();
    expectTypeOf(info!.result).toEqualTypeOf<{ messageId: string } | undefined>();
  });

  it("types of a queue allow schemas for known types only", () => {
    const schema = { "~standard": { validate: (value: unknown) => ({ value }) } };
    expect(new Queue<Jobs>("mail", { storage, schemas: { resize: schema } })).toBeDefined();
    // @ts-expect-error -- no such type
    expect(new Queue<Jobs>("mail", { storage, schemas: { rezise: schema } })).toBeDefined();
  });

  it("a queue without types takes any data", async () => {
    const loose = new Queue("mail", { storage });
    const job = await loose.add("anything", { any: "thing" });
    // oxlint-disable-next-line typescript/no-explicit-any -- that is what is to be seen
    expectTypeOf(job.data).toEqualTypeOf<any>();
  });

  it("types of a queue accept a type alias as an interface, and refuse a map of other things", async () => {
    type Alias = { send_email: { data: Mail; result: string } };
    const aliased = new Queue<Alias>("mail", { storage });
    expectTypeOf(await aliased.add("send_email", { to: "x" })).toEqualTypeOf<QueuedJob<Mail, string>>();
    // @ts-expect-error -- a type says what its data is
    expect(new Queue<{ send_email: string }>("mail", { storage })).toBeDefined();
  });

  it("types of a queue give each event its own properties", () => {
    queue.on("dead", (event) => {
      expectTypeOf(event.error.message).toEqualTypeOf<string>();
      // @ts-expect-error -- other events have that
      void event.progress;
    })();
    // @ts-expect-error -- no such event
    expect(() => queue.on("finished", () => {})).toThrow();
  });
});

describe("types of a worker", () => {
  const options = { storage, autostart: false };

  it("types of a worker give a handler the data of its type, and require the result of it", () => {
    const worker = new Worker<Jobs>(
      "mail",
      {
        send_email: async (job, context) => {
          expectTypeOf(job).toEqualTypeOf<JobView<Mail>>();
          expectTypeOf(context).toEqualTypeOf<JobContext>();
          return { messageId: job.data.to };
        },
        resize: (job) => {
          expectTypeOf(job.data.width).toEqualTypeOf<number>();
        },
      },
      options,
    );
    expect(worker.queue).toBe("mail");
  });

  it("types of a worker refuse a handler for an unknown type, and one with another result", () => {
    // @ts-expect-error -- misspelt
    expect(new Worker<Jobs>("mail", { send_emial: async () => {} }, options)).toBeDefined();
    // @ts-expect-error -- a number is no { messageId }
    expect(new Worker<Jobs>("mail", { send_email: async () => 1 }, options)).toBeDefined();
    // @ts-expect-error -- misspelt
    expect(() => new Worker("mail", async () => {}, { ...options, concurency: 2 })).toThrow();
    // @ts-expect-error -- not a limiter
    expect(() => new Worker("mail", async () => {}, { ...options, limiter: { max: 1 } })).toThrow();
  });

  it("types of a worker give one function for all types the data of any type", () => {
    const worker = new Worker<Jobs>(
      "mail",
      async (job) => {
        expectTypeOf(job.data).toEqualTypeOf<Mail | { width: number } | null>();
      },
      options,
    );
    expect(worker).toBeDefined();
  });

  it("types of a worker give handlers of batches a list", () => {
    const worker = new Worker<Jobs>(
      "mail",
      {
        send_email: async (jobs, context) => {
          expectTypeOf(jobs).toEqualTypeOf<readonly JobView<Mail>[]>();
          expectTypeOf(context.of(jobs[0]!)).toEqualTypeOf<JobContext>();
          return jobs.map(({ data }) => (data.to === "" ? new Error("no address") : { messageId: data.to }));
        },
      },
      { ...options, batch: { size: 10 } },
    );
    expect(worker).toBeDefined();
  });

  it("types of a worker leave data open where there are no types", () => {
    const worker = new Worker("mail", async (job) => job.data.anything.goes, options);
    expect(worker).toBeDefined();
  });
});

class Resize extends Job<{ width: number }, { path: string }> {
  static readonly type = "resize";
  async execute(input: { width: number }, context: IJobExecuteContext): Promise<{ path: string }> {
    expectTypeOf(this.input).toEqualTypeOf<{ width: number }>();
    await context.updateProgress(50, "half", { width: input.width });
    return { path: this.id };
  }
}

describe("types of the class face", () => {
  it("types of the class face are taken from the class", async () => {
    const server = new JobQueueServer(Resize, { storage, queueName: "images" });
    expectTypeOf(server).toEqualTypeOf<JobQueueServer<{ width: number }, { path: string }>>();
    expectTypeOf(Resize).toExtend<JobClass<{ width: number }, { path: string }>>();
    const client = new JobQueueClient({ storage, queueName: "images", jobClass: Resize });
    expectTypeOf(client).toEqualTypeOf<JobQueueClient<{ width: number }, { path: string }>>();
    const handle = await client.submit({ width: 1 });
    expectTypeOf(handle).toEqualTypeOf<JobHandle<{ path: string }>>();
    expectTypeOf(handle.waitFor()).toEqualTypeOf<Promise<{ path: string }>>();
    expectTypeOf(await client.getJob(handle.id)).toEqualTypeOf<
      JobDetails<{ width: number }, { path: string }> | undefined
    >();
    // @ts-expect-error -- not what the class takes
    await client.submit({ widht: 1 });
    // @ts-expect-error -- not what the class takes
    await client.submitBatch([{ width: 1 }, { width: "2" }]);
  });

  it("types of the class face can be given explicitly", async () => {
    const client = new JobQueueClient<{ width: number }, string>({ storage, queueName: "images" });
    const [handle] = await client.submitBatch([{ width: 1 }]);
    expectTypeOf(handle!.waitFor()).toEqualTypeOf<Promise<string>>();
  });

  it("types of the class face refuse values that are not a class of jobs, and unknown options", () => {
    // @ts-expect-error -- abstract: there is nothing to execute
    expect(() => new JobQueueServer(Job, { storage, queueName: "images" })).toThrow();
    // @ts-expect-error -- not a job
    expect(() => new JobQueueServer(Date, { storage, queueName: "images" })).toThrow();
    // @ts-expect-error -- misspelt
    expect(() => new JobQueueServer(Resize, { storage, queueName: "images", workers: 2 })).toThrow();
    // @ts-expect-error -- no queue
    expect(() => new JobQueueServer(Resize, { storage })).toThrow();
  });

  it("types of the class face check the result of `execute`", () => {
    class Wrong extends Job<number, string> {
      // @ts-expect-error -- a number is no string
      async execute(input: number): Promise<number> {
        return input;
      }
    }
    expect(new Wrong({ input: 1 }).input).toBe(1);
    // @ts-expect-error -- not the class's input
    expect(new Wrong({ input: "1" }).input).toBe("1");
  });

  it("keys are names and values that are text", async () => {
    const untyped = new Queue("q", { storage });
    expectTypeOf<JobView["keys"]>().toEqualTypeOf<Readonly<Record<string, string>> | undefined>();
    expectTypeOf<JobDetails<unknown, unknown>["keys"]>().toEqualTypeOf<JobView["keys"]>();
    expectTypeOf<Job["keys"]>().toEqualTypeOf<JobView["keys"]>();
    const job = await untyped.add("t", 1, { keys: { tenant: "acme" } });
    await job.update({ keys: null });
    // @ts-expect-error -- a number is no value of a key
    await expect(untyped.add("t", 1, { keys: { tenant: 5 } })).rejects.toThrow();
    // @ts-expect-error -- an array has no names
    await expect(job.update({ keys: ["acme"] })).rejects.toThrow();
    expectTypeOf<QueueDefaults<Jobs>>().not.toHaveProperty("keys");
  });

  it("types of the class face accept several classes", () => {
    class Other extends Job<string, number> {
      async execute(input: string): Promise<number> {
        return input.length;
      }
    }
    expect(new JobQueueServer([Resize, Other], { storage, queueName: "images" })).toBeDefined();
  });
});
