import { request } from "node:http";
import { CompositeLimiter } from "../../src/limiter/composite-limiter.ts";
import { RateLimiter } from "../../src/limiter/rate-limiter.ts";
import type { JobContext, JobView } from "../../src/worker/context.ts";
import { Worker } from "../../src/worker/worker.ts";
import { hr } from "../history/entry.ts";
import { type House, textOf } from "./house.ts";
import { sleep } from "./sleep.ts";
import type { Work, WorkerSpec } from "./spec.ts";

/** Runs jobs until it is told to stop, or killed. */
export async function work(house: House, spec: WorkerSpec): Promise<void> {
  const { storage, recorder } = house;
  const note = (kind: "ready" | "term" | "error", text: string, value: number) =>
    recorder.write({ op: "process", phase: "info", kind, text, value });

  const handler = async (job: JobView<Work>, context: JobContext): Promise<{ token: number }> => {
    const run = { op: "run", job: job.id, token: context.token, attempt: context.attempt } as const;
    recorder.write({ ...run, phase: "invoke" });
    context.signal.addEventListener("abort", () => {
      const reason = textOf(context.signal.reason);
      recorder.write({ op: "abort", phase: "info", job: job.id, token: context.token, reason });
    });
    try {
      await perform(job, context, spec);
      recorder.write({ ...run, phase: "ok" });
      return { token: context.token };
    } catch (error) {
      recorder.write({ ...run, phase: "fail" });
      throw error;
    }
  };

  const worker = new Worker<Record<string, { data: Work; result: unknown }>>(spec.queue, handler, {
    storage,
    clock: house.clock,
    concurrency: spec.concurrency,
    lease: spec.leaseMs,
    limiter: spec.limiter ?? compositeOf(house, spec),
    limits: spec.limits,
    onError: (error) => note("error", textOf(error), 0),
    autostart: false,
  });
  let stopping = false;
  process.on("SIGTERM", () => {
    if (stopping) process.exit(1);
    stopping = true;
    note("term", "", 0);
    void worker
      .stop({ timeout: spec.graceMs })
      .then(() => house.leave())
      .then(() => process.exit(0));
  });
  await worker.start();
  note("ready", worker.id, spec.concurrency);
}

function compositeOf({ storage }: House, { composite }: WorkerSpec): CompositeLimiter | undefined {
  if (composite === undefined) return undefined;
  return new CompositeLimiter(
    composite.map(
      ({ name, max, windowMs }) =>
        new RateLimiter(storage.rates, name, { maxExecutions: max, windowSizeInSeconds: windowMs / 1_000 }),
    ),
  );
}

async function perform({ data, id, attempt }: JobView<Work>, context: JobContext, spec: WorkerSpec) {
  const { signal, token } = context;
  switch (data.do) {
    case "nothing":
      return;
    case "sleep":
      await sleep(data.ms, data.deaf === true ? undefined : signal);
      if (data.deaf !== true) signal.throwIfAborted();
      return;
    case "spin":
      return spin(data.ms);
    case "use":
      await sleep(data.ms / 2, signal);
      await context.settle({ tokens: data.tokens });
      await sleep(data.ms / 2, signal);
      signal.throwIfAborted();
      return;
    case "echo":
      return callEcho(spec.echoPort!, { limiter: data.limiter, job: id, token });
    case "fail":
      if (attempt < data.until) throw new Error(`attempt ${attempt} fails`);
      return;
    case "abort":
      process.abort();
      return;
    case "exhaust":
      return exhaust();
  }
}

/** Nothing else runs in this process meanwhile. */
function spin(ms: number): void {
  const end = hr() + ms;
  while (hr() < end);
}

/** Fills the heap until the process dies of it. */
function exhaust(): void {
  const all: unknown[] = [];
  for (;;) all.push(Array.from({ length: 10_000 }, (_, i) => ({ i })));
}

function callEcho(port: number, call: { limiter: string; job: string; token: number }): Promise<void> {
  return new Promise((resolve, reject) => {
    const path = `/?${new URLSearchParams({ ...call, token: String(call.token) }).toString()}`;
    request({ host: "127.0.0.1", port, path }, (response) => {
      response.resume();
      response.on("end", resolve);
    })
      .on("error", reject)
      .end();
  });
}
