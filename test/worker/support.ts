import { type Handler, MemoryStorage, Queue, Worker, type WorkerOptions } from "../../src/index.ts";
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
  // oxlint-disable-next-line typescript/no-explicit-any -- every test knows its own data
  handlers: Handler<any> | Record<string, Handler<any>>,
  options: Partial<WorkerOptions> = {},
) {
  const errors: unknown[] = [];
  const worker = new Worker("q", handlers, {
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
