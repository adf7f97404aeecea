import type { NewJob, Outcome, Report } from "../../storage/job-storage.ts";
import { MemoryStorage } from "../../storages/memory/job-storage.ts";
import { Heap, NOWHERE } from "../../storages/memory/heap.ts";
import { Arrivals } from "./arrivals.ts";
import { WaitReasons } from "./wait-reasons.ts";
import { later, VirtualClock } from "./clock.ts";
import { QueueWorkers } from "./queue-workers.ts";
import type { Arrival, Plan } from "./plan.ts";
import type { Played, Run } from "./runs.ts";

/** An in-flight job. */
interface InFlight {
  readonly run: Run;
  readonly workers: QueueWorkers;
  readonly worker: number;
  readonly token: number;
  readonly endsAt: number;
  slot: number;
}

/** No worker crashes here, so no lease has to expire. */
const LEASE_MS = 1e12;
/** The storage is swept at intervals, as workers do. */
const SWEEP_MS = 30_000;
/** The storage takes so many jobs at a time. */
const BATCH = 1_000;
/** Each job causes a few events. More than this means an endless loop. */
const STEPS_PER_JOB = 20;

/**
 * Runs the jobs of a plan on a clock of its own, against a storage in memory that decides by the same code as any other.
 * The clock jumps from one event to the next: a job comes, a job ends, or the instant at which
 * the storage said that one can start.
 */
export function play(plan: Plan): Promise<Played> {
  return new Stage(plan).play();
}

class Stage {
  readonly #plan: Plan;
  readonly #clock = new VirtualClock();
  readonly #storage = new MemoryStorage({ clock: this.#clock });
  readonly #arrivals: Arrivals;
  readonly #queues: readonly QueueWorkers[];
  readonly #reasons: WaitReasons;
  readonly #runs: Run[] = [];
  readonly #inFlight = new Heap<InFlight>((a, b) => a.endsAt - b.endsAt || a.token - b.token);
  #capped = false;
  #claims = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#arrivals = new Arrivals(plan.work, plan.seed);
    const queues = [...new Set(plan.work.map(({ queue }) => queue))];
    this.#queues = queues.map((queue) => new QueueWorkers(queue, plan.workers, plan.concurrency));
    this.#reasons = new WaitReasons(this.#storage, {
      isFree: (queue) => this.#queues.some((workers) => workers.queue === queue && workers.free > 0),
      running: () => this.#inFlight,
    });
  }

  async play(): Promise<Played> {
    const end = this.#plan.forMs ?? Number.POSITIVE_INFINITY;
    await this.#storage.limits.define(this.#plan.limits);
    let sweepAt = SWEEP_MS;
    for (let steps = 0; ; steps++) {
      const now = this.#nextInstant();
      if (now === undefined) return this.#result(this.#reasons.anyWaits ? "stuck" : "done", this.#clock.now());
      if (now > end) return this.#result("time", end);
      if (steps > STEPS_PER_JOB * this.#plan.maxJobs) return this.#result("too much", this.#clock.now());
      this.#clock.moveTo(now);
      await this.#endJobs(now);
      await this.#addJobs(now);
      if (now >= sweepAt) {
        while ((await this.#storage.sweep()).more);
        sweepAt = now + SWEEP_MS;
      }
      // The first of several queues varies.
      for (let i = 0; i < this.#queues.length; i++)
        await this.#startJobs(this.#queues[(steps + i) % this.#queues.length]!, now);
      await this.#reasons.look(now);
    }
  }

  #nextInstant(): number | undefined {
    const ends = this.#inFlight.first?.endsAt ?? Number.POSITIVE_INFINITY;
    const next = Math.min(this.#arrivals.nextAt, ends, ...this.#queues.map(({ lookAt }) => lookAt));
    return next === Number.POSITIVE_INFINITY ? undefined : next;
  }

  async #endJobs(now: number): Promise<void> {
    const outcomes: Outcome[] = [];
    const reports: Report[] = [];
    for (let first = this.#inFlight.first; first !== undefined && first.endsAt <= now; first = this.#inFlight.first) {
      const { run, workers, worker, token } = first;
      this.#inFlight.remove(first);
      run.endedAt = now;
      workers.give(worker);
      const weights = usedBy(run);
      if (weights !== undefined) reports.push({ id: run.id, token, weights });
      outcomes.push({ id: run.id, token, to: "completed", result: null });
    }
    if (reports.length > 0) await this.#storage.report(reports);
    if (outcomes.length > 0) await this.#storage.settle(outcomes);
  }

  async #addJobs(now: number): Promise<void> {
    while (this.#arrivals.nextAt <= now) {
      const jobs: NewJob[] = [];
      while (this.#arrivals.nextAt <= now && jobs.length < BATCH) {
        const arrival = this.#arrivals.take()!;
        if (this.#runs.length >= this.#plan.maxJobs) {
          this.#arrivals.end();
          this.#capped = true;
          break;
        }
        const run: Run = { ...arrival, id: String(this.#runs.length), startedAt: null, endedAt: null };
        this.#runs.push(run);
        this.#reasons.arrive(run);
        jobs.push(newJob(run.id, arrival));
      }
      if (jobs.length > 0) await this.#storage.add(jobs);
    }
  }

  async #startJobs(workers: QueueWorkers, now: number): Promise<void> {
    workers.lookAt = Number.POSITIVE_INFINITY;
    for (let next = workers.next(); next !== undefined; next = workers.next()) {
      const { worker, free } = next;
      const { jobs, more, nextInMs } = await this.#storage.claim({
        queue: workers.queue,
        worker: `worker-${worker}`,
        max: free,
        types: null,
        leaseMs: LEASE_MS,
        limits: [],
        settle: [],
      });
      this.#claims += 1;
      workers.take(worker, jobs.length);
      for (const { id, token } of jobs) {
        const run = this.#runs[Number(id)]!;
        run.startedAt = now;
        this.#reasons.start(run, now);
        this.#inFlight.add({ run, workers, worker, token, endsAt: now + run.durationMs, slot: NOWHERE });
      }
      if (more) continue;
      if (nextInMs !== null) workers.lookAt = later(now + nextInMs, now);
      return;
    }
  }

  #result(ended: Played["ended"], endedAt: number): Played {
    const blame = this.#reasons.result(endedAt);
    const held = this.#reasons.held();
    return { runs: this.#runs, endedAt, ended, capped: this.#capped, blame, held, claims: this.#claims };
  }
}

function newJob(id: string, { work, group, keys, weights }: Arrival): NewJob {
  return {
    id,
    queue: work.queue,
    type: work.type,
    data: "null",
    due: { inMs: 0 },
    priority: work.priority,
    group,
    keys,
    weights,
    maxAttempts: 1,
    backoff: { kind: "fixed", delay: 0 },
    timeout: null,
    deadline: null,
    keepFor: 0,
    idempotency: null,
  };
}

/** What the job really used, if that differs from its weights; undefined: it does not. */
export function usedBy({ work, weights }: Arrival): Readonly<Record<string, number>> | undefined {
  const names = Object.keys(work.used);
  if (names.length === 0 || weights === null) return undefined;
  return Object.fromEntries(
    names
      .filter((name) => Object.hasOwn(weights, name))
      .map((name) => [name, Math.round(weights[name]! * work.used[name]!)]),
  );
}
