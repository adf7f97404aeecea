/** The workers of one queue. */
export class QueueWorkers {
  readonly queue: string;
  /** When it makes sense to ask for jobs again, as the storage said. */
  lookAt = Number.POSITIVE_INFINITY;
  readonly #concurrency: number;
  /** The number of in-flight jobs of each worker. */
  readonly #inFlight: number[];
  #free: number;
  #turn = 0;

  constructor(queue: string, workers: number, concurrency: number) {
    this.queue = queue;
    this.#concurrency = concurrency;
    this.#inFlight = Array.from({ length: workers }, () => 0);
    this.#free = workers * concurrency;
  }

  /** How many more jobs they could run, all together. */
  get free(): number {
    return this.#free;
  }

  /** The next worker with an unused slot, by turns; undefined: none has one. */
  next(): { readonly worker: number; readonly free: number } | undefined {
    if (this.#free === 0) return undefined;
    for (;;) {
      const worker = this.#turn;
      this.#turn = (this.#turn + 1) % this.#inFlight.length;
      const free = this.#concurrency - this.#inFlight[worker]!;
      if (free > 0) return { worker, free };
    }
  }

  take(worker: number, jobs: number): void {
    this.#inFlight[worker]! += jobs;
    this.#free -= jobs;
  }

  give(worker: number): void {
    this.#inFlight[worker]! -= 1;
    this.#free += 1;
  }
}
