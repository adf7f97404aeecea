import { JobError } from "../../core/errors.ts";
import type { Added, NewJob } from "../../storage/job-storage.ts";
import { isBusy } from "./driver.ts";
import { add } from "./jobs/add.ts";
import type { Step } from "./step.ts";
import type { Store } from "./store.ts";

interface Call {
  readonly jobs: readonly NewJob[];
  readonly resolve: (added: readonly Added[]) => void;
  readonly reject: (error: unknown) => void;
}

type Result = { readonly added: readonly Added[] } | { readonly error: unknown };

/** No more jobs than this in one transaction, so that no call waits for long. */
const MOST = 1_000;

/**
 * Calls that add jobs in the same turn share a transaction: a commit costs as much as several jobs. Each call stays what it
 * is on its own: all of its jobs or none, whatever becomes of the others.
 */
export class Adding {
  readonly #store: Store;
  #calls: Call[] = [];
  #flushing: Promise<void> | undefined;
  /** What is being written: it may wait for a lock. */
  readonly #writing = new Set<Promise<void>>();

  constructor(store: Store) {
    this.#store = store;
  }

  add(jobs: readonly NewJob[]): Promise<readonly Added[]> {
    return new Promise((resolve, reject) => {
      this.#calls.push({ jobs, resolve, reject });
      this.#flushing ??= this.#flush();
    });
  }

  /** Everything that was called before is done. */
  async done(): Promise<void> {
    await this.#flushing;
    await Promise.all(this.#writing);
  }

  async #flush(): Promise<void> {
    // As long as every step brings more calls, there may be more to come.
    for (let seen = 0; seen < this.#calls.length && seen < MOST;) {
      seen = this.#calls.length;
      await Promise.resolve();
      await Promise.resolve();
    }
    const calls = this.#calls;
    this.#calls = [];
    this.#flushing = undefined;
    const written = this.#commitAll(calls);
    this.#writing.add(written);
    await written;
    this.#writing.delete(written);
  }

  async #commitAll(calls: Call[]): Promise<void> {
    while (calls.length > 0) {
      const some = calls.splice(0, fitting(calls));
      try {
        const results = await this.#store.write((step) => addAll(step, some));
        for (const [i, result] of results.entries()) {
          if ("added" in result) some[i]!.resolve(result.added);
          else some[i]!.reject(result.error);
        }
      } catch (error) {
        for (const { reject } of some) reject(error);
      }
    }
  }
}

function addAll(step: Step, calls: readonly Call[]): readonly Result[] {
  if (calls.length === 1) return [{ added: add(step, calls[0]!.jobs) }];
  return calls.map(({ jobs }) => addApart(step, jobs));
}

/** How many of the calls go into one transaction: one at least. */
function fitting(calls: readonly Call[]): number {
  let jobs = 0;
  let count = 0;
  for (const call of calls) {
    jobs += call.jobs.length;
    if (count > 0 && jobs > MOST) break;
    count += 1;
  }
  return count;
}

/** One call among others: if it fails, nothing of it remains. */
function addApart(step: Step, jobs: readonly NewJob[]): Result {
  // Without keys, and where nothing is weighed, there is nothing to refuse.
  if (step.rules.weighing.length === 0 && jobs.every(({ idempotency }) => idempotency === null)) {
    return { added: add(step, jobs) };
  }
  step.sql("SAVEPOINT sluice_add").run();
  const before = { events: step.events.length, woken: [...step.woken] };
  try {
    const added = add(step, jobs);
    step.sql("RELEASE sluice_add").run();
    return { added };
  } catch (error) {
    if (isBusy(error) || !(error instanceof JobError)) throw error;
    step.sql("ROLLBACK TO sluice_add").run();
    step.sql("RELEASE sluice_add").run();
    step.events.length = before.events;
    step.woken.clear();
    for (const [queue, mayStart] of before.woken) step.woken.set(queue, mayStart);
    return { error };
  }
}
