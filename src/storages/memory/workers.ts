import { bySince, detailsOf, type Registered, type WorkerEntry, type WorkerRecord } from "../../storage/workers.ts";

/** A worker that is live until then. */
interface Registration {
  readonly worker: WorkerRecord;
  readonly until: number;
}

/** The workers that have registered. */
export class Workers {
  readonly #byId = new Map<string, Registration>();

  register(entries: readonly WorkerEntry[], ttlMs: number, gone: readonly string[], now: number): Registered {
    for (const id of gone) this.#byId.delete(id);
    for (const entry of entries) {
      const { id, queue, upMs } = entry;
      const since = this.#byId.get(id)?.worker.since ?? now - upMs;
      this.#byId.set(id, { worker: { id, queue, ...detailsOf(entry), since, seenAt: now }, until: now + ttlMs });
    }
    const [first] = this.live(now);
    return { first: entries.some(({ id }) => id === first?.id) };
  }

  live(now: number, queue?: string): WorkerRecord[] {
    return [...this.#byId.values()]
      .filter(({ until, worker }) => until > now && (queue === undefined || worker.queue === queue))
      .map(({ worker }) => worker)
      .toSorted(bySince);
  }

  /** Deletes expired workers, and answers how many. */
  prune(now: number): number {
    let pruned = 0;
    for (const [id, { until }] of this.#byId) if (until <= now && this.#byId.delete(id)) pruned += 1;
    return pruned;
  }
}
