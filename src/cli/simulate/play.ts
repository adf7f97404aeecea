import type { NewJob, Outcome, Report } from "../../storage/job-storage.ts";
import { MemoryStorage } from "../../storages/memory/job-storage.ts";
import { Heap, NOWHERE } from "../../storages/memory/heap.ts";
import { Arrivals } from "./arrivals.ts";
import { Blame } from "./blame.ts";
import { later, VirtualClock } from "./clock.ts";
import { Crew } from "./crew.ts";
import type { Arrival, Plan } from "./plan.ts";
import type { Played, Run } from "./runs.ts";

/** An in-flight job. */
interface InHand {
  readonly run: Run;
  readonly crew: Crew;
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
  readonly #crews: readonly Crew[];
  readonly #blame: Blame;
  readonly #runs: Run[] = [];
  readonly #inHand = new Heap<InHand>((a, b) => a.endsAt - b.endsAt || a.token - b.token);
  #capped = false;
  #claims = 0;

  constructor(plan: Plan) {
    this.#plan = plan;
    this.#arrivals = new Arrivals(plan.work, plan.seed);
    const queues = [...new Set(plan.work.map(({ queue }) => queue))];
    this.#crews = queues.map((queue) => new Crew(queue, plan.workers, plan.concurrency));
    this.#blame = new Blame(this.#storage, {
      isFree: (queue) => this.#crews.some((crew) => crew.queue === queue && crew.free > 0),
      running: () => this.#inHand,
    });
  }

  async play(): Promise<Played> {
    const end = this.#plan.forMs ?? Number.POSITIVE_INFINITY;
    await this.#storage.limits.define(this.#plan.limits);
    let sweepAt = SWEEP_MS;
    for (let steps = 0; ; steps++) {
      const now = this.#nextInstant();
      if (now === undefined) return this.#result(this.#blame.anybody ? "stuck" : "done", this.#clock.now());
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
      for (let i = 0; i < this.#crews.length; i++)
        await this.#startJobs(this.#crews[(steps + i) % this.#crews.length]!, now);
      await this.#blame.look(now);
    }
  }

  #nextInstant(): number | undefined {
    const ends = this.#inHand.first?.endsAt ?? Number.POSITIVE_INFINITY;
    const next = Math.min(this.#arrivals.nextAt, ends, ...this.#crews.map(({ lookAt }) => lookAt));
    return next === Number.POSITIVE_INFINITY ? undefined : next;
  }

  async #endJobs(now: number): Promise<void> {
    const outcomes: Outcome[] = [];
    const reports: Report[] = [];
    for (let first = this.#inHand.first; first !== undefined && first.endsAt <= now; first = this.#inHand.first) {
      const { run, crew, worker, token } = first;
      this.#inHand.remove(first);
      run.endedAt = now;
      crew.give(worker);
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
        this.#blame.arrive(run);
        jobs.push(newJob(run.id, arrival));
      }
      if (jobs.length > 0) await this.#storage.add(jobs);
    }
  }

  async #startJobs(crew: Crew, now: number): Promise<void> {
    crew.lookAt = Number.POSITIVE_INFINITY;
    for (let next = crew.next(); next !== undefined; next = crew.next()) {
      const { worker, free } = next;
      const { jobs, more, nextInMs } = await this.#storage.claim({
        queue: crew.queue,
        worker: `worker-${worker}`,
        max: free,
        types: null,
        leaseMs: LEASE_MS,
        limits: [],
        settle: [],
      });
      this.#claims += 1;
      crew.take(worker, jobs.length);
      for (const { id, token } of jobs) {
        const run = this.#runs[Number(id)]!;
        run.startedAt = now;
        this.#blame.start(run, now);
        this.#inHand.add({ run, crew, worker, token, endsAt: now + run.durationMs, slot: NOWHERE });
      }
      if (more) continue;
      if (nextInMs !== null) crew.lookAt = later(now + nextInMs, now);
      return;
    }
  }

  #result(ended: Played["ended"], endedAt: number): Played {
    const blame = this.#blame.result(endedAt);
    const held = this.#blame.held();
    return { runs: this.#runs, endedAt, ended, capped: this.#capped, blame, held, claims: this.#claims };
  }
}

function newJob(id: string, { work, group, weights }: Arrival): NewJob {
  return {
    id,
    queue: work.queue,
    type: work.type,
    data: "null",
    due: { inMs: 0 },
    priority: work.priority,
    group,
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
