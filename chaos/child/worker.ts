import { request } from "node:http";
import { CompositeLimiter } from "../../src/limiter/composite-limiter.ts";
import { RateLimiter } from "../../src/limiter/rate-limiter.ts";
import { queueLimitKey } from "../../src/worker/admission.ts";
import type { BatchContext } from "../../src/worker/batch.ts";
import type { JobContext, JobView } from "../../src/worker/context.ts";
import type { WorkerOptions } from "../../src/worker/options.ts";
import { Worker } from "../../src/worker/worker.ts";
import { hr } from "../history/entry.ts";
import type { Recorder } from "../history/recorder.ts";
import { type House, textOf } from "./house.ts";
import { sleep } from "./sleep.ts";
import type { Work, WorkerSpec } from "./spec.ts";

/** Runs jobs until it receives a signal to stop, or is killed. */
export async function work(house: House, spec: WorkerSpec): Promise<void> {
  const { storage, recorder } = house;
  const note = (kind: "ready" | "term" | "error", text: string, value: number) =>
    recorder.write({ op: "process", phase: "info", kind, text, value });

  const under = limiterNames(spec);

  const handle = async (job: JobView<Work>, context: JobContext, at: number): Promise<{ token: number }> => {
    const run = { op: "run", job: job.id, token: context.token, attempt: context.attempt } as const;
    recorder.write({ ...run, phase: "invoke", under }, at);
    context.signal.addEventListener("abort", () => {
      const reason = textOf(context.signal.reason);
      recorder.write({ op: "abort", phase: "info", job: job.id, token: context.token, reason });
    });
    try {
      await perform(job, context, spec, recorder);
      recorder.write({ ...run, phase: "ok" });
      return { token: context.token };
    } catch (error) {
      recorder.write({ ...run, phase: "fail" });
      throw error;
    }
  };

  const handler = (job: JobView<Work>, context: JobContext) => {
    const at = hr();
    return handle(job, context, at);
  };
  const batchHandler = (jobs: readonly JobView<Work>[], context: BatchContext) => {
    const at = hr();
    return Promise.all(jobs.map((job) => handle(job, context.of(job), at).catch(asError)));
  };

  const options: WorkerOptions = {
    storage,
    clock: house.clock,
    concurrency: spec.concurrency,
    lease: spec.leaseMs,
    limiter: spec.limiter ?? compositeOf(house, spec),
    limits: spec.limits,
    onError: (error) => note("error", textOf(error), 0),
    autostart: false,
  };
  const { queue, batch } = spec;
  const worker =
    batch === undefined
      ? new Worker<Jobs>(queue, handler, options)
      : new Worker<Jobs>(queue, batchHandler, { ...options, batch: { size: batch } });
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
  note("ready", worker.id, spec.concurrency * (batch ?? 1));
}

type Jobs = Record<string, { data: Work; result: unknown }>;

const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));

function compositeOf({ storage }: House, { composite }: WorkerSpec): CompositeLimiter | undefined {
  if (composite === undefined) return undefined;
  return new CompositeLimiter(
    composite.map(
      ({ name, max, windowMs }) =>
        new RateLimiter(storage.rates, name, { maxExecutions: max, windowSizeInSeconds: windowMs / 1_000 }),
    ),
  );
}

/** What its starts are counted under, beside shared limits. */
function limiterNames({ queue, limiter, composite = [] }: WorkerSpec): readonly string[] {
  return limiter === undefined ? composite.map(({ name }) => name) : [queueLimitKey(queue)];
}

async function perform(
  { data, id, attempt }: JobView<Work>,
  context: JobContext,
  spec: WorkerSpec,
  recorder: Recorder,
): Promise<void> {
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
      recorder.write({ op: "use", phase: "info", job: id, token, tokens: data.tokens });
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
