import { MemoryStorage, Queue, Worker, type WorkerOptions } from "../../src/index.ts";
import { FakeClock } from "../../src/testing/index.ts";

/** A queue in memory, on a clock that is moved by hand. */
export function open(options: { readonly defaults?: object } = {}) {
  const clock = new FakeClock();
  const storage = new MemoryStorage({ clock });
  const queue = new Queue("q", { storage, clock, ...options });
  return { clock, storage, queue };
}

type House = ReturnType<typeof open>;

/** A worker on the same clock; errors outside of handlers fail the test that looks at them. */
export function work(
  { clock, storage }: House,
  handlers: ConstructorParameters<typeof Worker>[1],
  options: Partial<WorkerOptions> = {},
) {
  const errors: unknown[] = [];
  const worker = new Worker("q", handlers as never, {
    storage,
    clock,
    random: () => 0.5,
    onError: (error) => errors.push(error),
    ...options,
  });
  return { worker, errors };
}

export interface Deferred<T> {
  readonly promise: Promise<T>;
  readonly resolve: (value: T) => void;
  readonly reject: (reason: unknown) => void;
}

export const deferred = <T = void>(): Deferred<T> => Promise.withResolvers<T>();
