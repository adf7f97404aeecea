import type { ErrorRecord, JobRecord } from "../../core/job.ts";
import type {
  Change,
  Claim,
  ClaimLimit,
  ClaimRequest,
  JobStorage,
  JobUpdate,
  Lease,
  ListQuery,
  NewJob,
  Outcome,
  QueueOverview,
} from "../../storage/job-storage.ts";
import type { FakeClock } from "../fake-clock.ts";

/** The fixture of a case: an empty storage, its clock, and helpers for frequent calls. */
export class Scene {
  readonly storage: JobStorage;
  readonly clock: FakeClock;
  #made = 0;

  constructor(storage: JobStorage, clock: FakeClock) {
    this.storage = storage;
    this.clock = clock;
  }

  /** A job with defaults, but for the given fields. */
  job(said: Partial<NewJob> = {}): NewJob {
    this.#made += 1;
    return {
      id: `job-${this.#made}`,
      queue: "q",
      type: "t",
      data: "{}",
      due: { inMs: 0 },
      priority: 0,
      group: null,
      weights: null,
      maxAttempts: 3,
      backoff: { kind: "fixed", delay: 1_000 },
      timeout: null,
      deadline: null,
      keepFor: null,
      idempotency: null,
      ...said,
    };
  }

  /** Adds jobs in one step and returns their ids. */
  async add(...said: readonly Partial<NewJob>[]): Promise<string[]> {
    return (await this.storage.add(said.map((one) => this.job(one)))).map(({ id }) => id);
  }

  /** Adds so many jobs of one kind. */
  addMany(count: number, said: Partial<NewJob> = {}): Promise<string[]> {
    return this.add(...Array.from({ length: count }, () => said));
  }

  async addOne(said: Partial<NewJob> = {}): Promise<string> {
    return (await this.add(said))[0]!;
  }

  claim(said: Partial<ClaimRequest> = {}): Promise<Claim> {
    return this.storage.claim({
      queue: "q",
      worker: "w",
      max: 10,
      types: null,
      leaseMs: 30_000,
      limits: [],
      settle: [],
      ...said,
    });
  }

  /** The ids of the jobs that a claim gets, in order. */
  async claimIds(said: Partial<ClaimRequest> = {}): Promise<string[]> {
    return (await this.claim(said)).jobs.map(({ id }) => id);
  }

  async claimOne(said: Partial<ClaimRequest> = {}): Promise<JobRecord> {
    const { jobs } = await this.claim({ max: 1, ...said });
    if (jobs[0] === undefined) throw new Error("expected a job to be claimed, got none");
    return jobs[0];
  }

  async get(id: string): Promise<JobRecord> {
    const [job] = await this.storage.find([id]);
    if (job === undefined) throw new Error(`expected to find job ${id}, but there is none`);
    return job;
  }

  async state(id: string): Promise<string | undefined> {
    return (await this.storage.find([id]))[0]?.state;
  }

  settle(...outcomes: readonly Outcome[]): Promise<readonly string[]> {
    return this.storage.settle(outcomes);
  }

  /** Adds a job and takes it to its end. */
  async ended(to: "completed" | "dead" | "cancelled", said: Partial<NewJob> = {}): Promise<string> {
    const id = await this.addOne(said);
    const job = await this.claimOne(said.queue === undefined ? {} : { queue: said.queue });
    if (job.id !== id) throw new Error(`expected to claim ${id}, got ${job.id}`);
    await this.settle(
      to === "completed" ? completed(job) : to === "dead" ? dead(job) : { ...lease(job), to, error: null },
    );
    return id;
  }

  change(action: Change["action"], ...ids: readonly string[]): Promise<readonly string[]> {
    return this.storage.change({ action, queue: "q", ids });
  }

  list(said: Partial<ListQuery> = {}) {
    return this.storage.list({
      queue: "q",
      states: null,
      type: null,
      group: null,
      since: null,
      until: null,
      limit: 100,
      cursor: null,
      ...said,
    });
  }

  async overview(queue = "q"): Promise<QueueOverview | undefined> {
    return (await this.storage.overview(queue))[0];
  }

  update(id: string | undefined, set: JobUpdate["set"]) {
    return this.storage.update({ queue: "q", id: id!, set });
  }

  /**
   * Does this step wake up a subscriber of the queue? `mayStart`: only wake-ups count by which something may start that could not
   * before. `quietFirst`: earlier wake-ups are waited for, and do not count.
   */
  async wakes(
    step: () => Promise<unknown>,
    {
      queue = "q",
      mayStart = false,
      quietFirst = false,
    }: { readonly queue?: string | null; readonly mayStart?: boolean; readonly quietFirst?: boolean } = {},
  ): Promise<boolean> {
    let woken = false;
    const unsubscribe = this.storage.subscribe({ queue, wake: (may) => (woken ||= may || !mayStart) });
    if (quietFirst) {
      await this.notified(() => false);
      woken = false;
    }
    await step();
    const found = await this.notified(() => woken);
    unsubscribe();
    return found;
  }

  /** Advances time until a notification came, for as long as one may take. */
  async notified(seen: () => boolean): Promise<boolean> {
    await this.clock.advance(0);
    for (let i = 0; i < 10 && !seen(); i++) await this.clock.advance(100);
    return seen();
  }

  /** Sweeps until nothing is left to do. */
  async sweep(): Promise<{ stalled: number; deleted: number }> {
    const sum = { stalled: 0, deleted: 0 };
    for (;;) {
      const { stalled, deleted, more } = await this.storage.sweep();
      sum.stalled += stalled;
      sum.deleted += deleted;
      if (!more) return sum;
    }
  }
}

export const ERROR: ErrorRecord = { name: "TypeError", message: "it broke", code: "E_BROKE", stack: "at here" };

export const lease = ({ id, token }: Lease): Lease => ({ id, token });
export const completed = (job: Lease, result: string | null = null): Outcome => ({
  ...lease(job),
  to: "completed",
  result,
});
export const dead = (job: Lease): Outcome => ({ ...lease(job), to: "dead", error: ERROR });
export const cancelled = (job: Lease, error: ErrorRecord | null = null): Outcome => ({
  ...lease(job),
  to: "cancelled",
  error,
});
export const retry = (job: Lease, inMs = 0, error = ERROR): Outcome => ({ ...lease(job), to: "retry", inMs, error });
export const back = (job: Lease, said: Partial<Extract<Outcome, { to: "back" }>> = {}): Outcome => ({
  inMs: 0,
  held: false,
  error: null,
  hold: null,
  unstarted: false,
  ...said,
  ...lease(job),
  to: "back",
});

export const limit = (key: string, max: number, windowMs: number): ClaimLimit => ({ key, max, windowMs });

/** The cases of one subject: the requirement, and the function that checks it. */
export type Cases = Readonly<Record<string, (scene: Scene) => Promise<void>>>;
