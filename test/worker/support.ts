import {
  type AddOptions,
  type Handler,
  type JobDefaults,
  MemoryStorage,
  Queue,
  Worker,
  type WorkerOptions,
} from "../../src/index.ts";
import type { JobStorage } from "../../src/storage/job-storage.ts";
import { SqliteStorage } from "../../src/storages/sqlite/index.ts";
import { FakeClock } from "../../src/testing/index.ts";

/** A queue in memory, on a fake clock. */
export function open(options: { readonly defaults?: JobDefaults } = {}) {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const queue = new Queue("q", { storage, clock, ...options });
  return { clock, storage, queue };
}

export interface House {
  readonly clock: FakeClock;
  readonly storage: JobStorage;
  readonly queue: Queue;
}

/** The same over each storage. */
export const HOUSES: readonly { readonly name: string; readonly open: () => House }[] = [
  { name: "memory", open },
  {
    name: "sqlite",
    open: () => {
      const clock = new FakeClock();
      const storage = new SqliteStorage(":memory:", { clock });
      return { clock, storage, queue: new Queue("q", { storage, clock }) };
    },
  },
];

/** A worker on the same clock; errors outside of handlers fail the test that looks at them. */
export function work(
  { clock, storage }: House,
  // oxlint-disable-next-line typescript/no-explicit-any -- every test knows its own data
  handlers: Handler<any> | Record<string, Handler<any>>,
  { queue = "q", ...options }: Partial<WorkerOptions> & { readonly queue?: string } = {},
) {
  const errors: unknown[] = [];
  const worker = new Worker(queue, handlers, {
    storage,
    clock,
    random: () => 0.5,
    onError: (error) => errors.push(error),
    ...options,
  });
  return { worker, errors };
}

/** For so long every heartbeat answers that the leases are lost; the storage keeps them. */
export async function loseLeases({ clock, storage }: House, forMs: number): Promise<void> {
  const heartbeat = storage.heartbeat.bind(storage);
  storage.heartbeat = async (leases) => ({ lost: leases.map(({ id }) => id), cancelled: [] });
  await clock.advance(forMs);
  storage.heartbeat = heartbeat;
}

/** The process stands still: the clock jumps by as much as is added to `by`. */
export function jumps(clock: FakeClock): { by: number } {
  const jump = { by: 0 };
  const now = clock.now.bind(clock);
  clock.now = () => now() + jump.by;
  return jump;
}

/** So many jobs of a type, for `addBulk`. */
export const many = (n: number, type = "t", options: AddOptions = {}) =>
  Array.from({ length: n }, (_, data) => ({ type, data, options }));

/** Handlers that run until the test ends them, the oldest first. */
export function gate() {
  const ends: (() => void)[] = [];
  const seen = { running: 0, peak: 0, starts: 0 };
  return {
    seen,
    handler: async () => {
      seen.starts += 1;
      seen.peak = Math.max(seen.peak, ++seen.running);
      await new Promise<void>((resolve) => ends.push(resolve));
      seen.running -= 1;
    },
    end: (n = 1) => {
      for (const resolve of ends.splice(0, n)) resolve();
    },
  };
}

export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export const deferred = <T = void>(): Deferred<T> => Promise.withResolvers<T>();
