import {
  type IJobExecuteContext,
  Job,
  type JobClass,
  JobQueueClient,
  JobQueueServer,
  type JobQueueServerOptions,
  MemoryStorage,
} from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";

export interface Scene<Input, Output> {
  readonly clock: FakeClock;
  readonly storage: MemoryStorage;
  readonly server: JobQueueServer<Input, Output>;
  readonly client: JobQueueClient<Input, Output>;
  /** The errors that the server has reported. */
  readonly errors: unknown[];
}

/** A server that is started, and a client that knows nothing but the storage and the name of the queue. */
export async function open<Input, Output>(
  jobClass: JobClass<Input, Output>,
  options: Partial<JobQueueServerOptions> = {},
  clock = new FakeClock(),
): Promise<Scene<Input, Output>> {
  const storage = new MemoryStorage({ clock });
  const errors: unknown[] = [];
  const queueName = "q";
  const onError = (error: unknown) => void errors.push(error);
  const server = new JobQueueServer(jobClass, { storage, queueName, clock, onError, ...options });
  await server.start();
  const client = new JobQueueClient<Input, Output>({ storage, queueName, clock });
  return { clock, storage, server, client, errors };
}

/** A class whose jobs run until the test ends them, or until they are aborted. */
export function gated() {
  const gates = new Set<() => void>();
  const seen = { running: 0, peak: 0, started: [] as number[] };
  class GatedJob extends Job<number, number> {
    async execute(input: number, { signal }: IJobExecuteContext): Promise<number> {
      seen.started.push(input);
      seen.peak = Math.max(seen.peak, ++seen.running);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      gates.add(resolve);
      signal.addEventListener("abort", () => reject(signal.reason));
      try {
        await promise;
      } finally {
        gates.delete(resolve);
        seen.running -= 1;
      }
      return input * 2;
    }
  }
  /** Ends the jobs that run longest. */
  const end = (jobs = 1) => {
    for (const resolve of [...gates].slice(0, jobs)) {
      gates.delete(resolve);
      resolve();
    }
  };
  return { GatedJob, seen, end };
}

export const numbers = (length: number) => Array.from({ length }, (_, i) => i);
