import type { JobEvent } from "../../src/core/events.ts";
import type { JobRecord } from "../../src/core/job.ts";
import type {
  Added,
  Change,
  Claim,
  ClaimRequest,
  Endings,
  Heartbeat,
  JobHistory,
  JobPage,
  JobStorage,
  JobUpdate,
  Lease,
  ListQuery,
  NewJob,
  Outcome,
  QueueOverview,
  Report,
  Subscriber,
  Sweep,
  Updated,
} from "../../src/storage/job-storage.ts";
import type { Confirmation } from "../../src/storage/grants.ts";
import type { Backlog, LimitStorage, StartConditions } from "../../src/storage/limit-storage.ts";
import type { ConfirmingRateLimiterStorage } from "../../src/storage/rate-limiter-storage.ts";
import type { Registered, UnhandledType, WorkerEntry, WorkerRecord } from "../../src/storage/workers.ts";
import { Seeded } from "../conductor/seeded.ts";
import { hr, type SettledJob } from "../history/entry.ts";
import type { Recorder } from "../history/recorder.ts";

export interface RecordedOptions {
  readonly seed: number;
  /** How often a settle, a cancellation or a confirmation is sent twice, as a network would. */
  readonly duplicate: number;
}

/** A storage that records its steps, before and after: the history that checkers use. */
export class RecordedStorage implements JobStorage {
  readonly rates: ConfirmingRateLimiterStorage;
  readonly limits: LimitStorage;
  readonly #inner: JobStorage;
  readonly #recorder: Recorder;
  readonly #chance: Seeded;
  readonly #duplicate: number;

  constructor(inner: JobStorage, recorder: Recorder, options: RecordedOptions) {
    this.#inner = inner;
    this.#recorder = recorder;
    this.#chance = new Seeded(options.seed).fork("duplicate");
    this.#duplicate = options.duplicate;
    this.rates = recordedRates(inner.rates, recorder, options);
    this.limits = inner.limits;
  }

  setup(): Promise<void> {
    return this.#inner.setup();
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async add(jobs: readonly NewJob[], tx?: unknown): Promise<readonly Added[]> {
    const call = this.#recorder.call();
    this.#recorder.write({
      op: "add",
      phase: "invoke",
      call,
      jobs: jobs.map(({ id, queue, idempotency, group, priority, due }) => {
        // Instants are whole milliseconds, and some jobs were given one before.
        const inMs = "inMs" in due ? due.inMs : Math.max(1, due.at - Date.now() - 2);
        return { id, queue, key: idempotency?.key ?? null, group, priority, inMs };
      }),
    });
    try {
      const answers = await this.#inner.add(jobs, tx);
      this.#recorder.write({ op: "add", phase: "ok", call, answers });
      return answers;
    } catch (error) {
      this.#recorder.write({ op: "add", phase: "fail", call, error: String(error) });
      throw error;
    }
  }

  async claim(request: ClaimRequest): Promise<Claim> {
    const { queue, leaseMs, limits, settle, confirm = [] } = request;
    const from = hr();
    const call = this.#settling(settle);
    const claim = await this.#inner.claim(request);
    if (call !== undefined) this.#recorder.write({ op: "settle", phase: "ok", call, stale: claim.stale });
    if (confirm.length > 0) this.#recorder.write({ op: "confirm", phase: "ok", from, with: "claim", calls: confirm });
    if (claim.jobs.length > 0) {
      this.#recorder.write({
        op: "claim",
        phase: "ok",
        from,
        queue,
        leaseMs,
        limits: limits.map(({ key }) => key),
        grant: claim.grant?.id,
        jobs: claim.jobs.map(({ id, token, attempt, startedAt, leaseUntil }) => ({
          job: id,
          token,
          attempt,
          grantMs: startedAt!,
          leaseUntil: leaseUntil!,
        })),
      });
    }
    await this.#again(settle);
    await this.#confirmAgain(confirm);
    return claim;
  }

  async confirm(confirmations: readonly Confirmation[]): Promise<void> {
    await this.#confirm(confirmations);
    await this.#confirmAgain(confirmations);
  }

  async settle(outcomes: readonly Outcome[]): Promise<readonly string[]> {
    const stale = await this.#settle(outcomes);
    await this.#again(outcomes);
    return stale;
  }

  async heartbeat(leases: readonly Lease[], leaseMs: number): Promise<Heartbeat> {
    const from = hr();
    const answer = await this.#inner.heartbeat(leases, leaseMs);
    const jobs = leases.map(({ id, token }) => ({ job: id, token }));
    this.#recorder.write({ op: "heartbeat", phase: "ok", from, leaseMs, leases: jobs, lost: answer.lost });
    return answer;
  }

  report(reports: readonly Report[]): Promise<readonly string[]> {
    return this.#inner.report(reports);
  }

  async sweep(): Promise<Sweep> {
    const from = hr();
    const swept = await this.#inner.sweep();
    if (swept.stalled > 0) this.#recorder.write({ op: "sweep", phase: "ok", from, stalled: swept.stalled });
    return swept;
  }

  findByKey(queue: string, key: string): Promise<JobRecord | undefined> {
    return this.#inner.findByKey(queue, key);
  }

  register(workers: readonly WorkerEntry[], ttlMs: number, gone: readonly string[]): Promise<Registered> {
    return this.#inner.register(workers, ttlMs, gone);
  }

  workers(queue?: string): Promise<readonly WorkerRecord[]> {
    return this.#inner.workers(queue);
  }

  unhandled(): Promise<readonly UnhandledType[]> {
    return this.#inner.unhandled();
  }

  endings(ids: readonly string[]): Promise<Endings> {
    return this.#inner.endings(ids);
  }

  update(update: JobUpdate): Promise<Updated> {
    return this.#inner.update(update);
  }

  find(ids: readonly string[]): Promise<readonly (JobRecord | undefined)[]> {
    return this.#inner.find(ids);
  }

  history(id: string): Promise<JobHistory> {
    return this.#inner.history(id);
  }

  list(query: ListQuery): Promise<JobPage> {
    return this.#inner.list(query);
  }

  overview(queue?: string): Promise<readonly QueueOverview[]> {
    return this.#inner.overview(queue);
  }

  explain(id: string): Promise<StartConditions | undefined> {
    return this.#inner.explain(id);
  }

  backlog(queue: string): Promise<Backlog> {
    return this.#inner.backlog(queue);
  }

  async change(change: Change): Promise<readonly string[]> {
    const call = this.#recorder.call();
    const asked = "ids" in change ? change.ids : null;
    this.#recorder.write({ op: "change", phase: "invoke", call, action: change.action, ids: asked });
    const ids = await this.#inner.change(change);
    this.#recorder.write({ op: "change", phase: "ok", call, ids });
    return ids;
  }

  setPaused(queue: string, type: string | null, paused: boolean): Promise<void> {
    return this.#inner.setPaused(queue, type, paused);
  }

  subscribe(subscriber: Subscriber): () => void {
    return this.#inner.subscribe(subscriber);
  }

  publish(event: JobEvent): Promise<void> {
    return this.#inner.publish(event);
  }

  #settling(outcomes: readonly Outcome[]): number | undefined {
    if (outcomes.length === 0) return undefined;
    const call = this.#recorder.call();
    this.#recorder.write({ op: "settle", phase: "invoke", call, outcomes: outcomes.map(settled) });
    return call;
  }

  async #settle(outcomes: readonly Outcome[]): Promise<readonly string[]> {
    const call = this.#settling(outcomes);
    const stale = await this.#inner.settle(outcomes);
    if (call !== undefined) this.#recorder.write({ op: "settle", phase: "ok", call, stale });
    return stale;
  }

  async #confirm(confirmations: readonly Confirmation[]): Promise<void> {
    const from = hr();
    await this.#inner.confirm(confirmations);
    this.#recorder.write({ op: "confirm", phase: "ok", from, calls: confirmations });
  }

  /** Sends the same confirmations once more, now and then: that changes nothing. */
  async #confirmAgain(confirmations: readonly Confirmation[]): Promise<void> {
    if (confirmations.length > 0 && this.#chance.chance(this.#duplicate)) await this.#confirm(confirmations);
  }

  /** Sends the same outcomes once more, now and then: every one of them must be refused. */
  async #again(outcomes: readonly Outcome[]): Promise<void> {
    if (outcomes.length > 0 && this.#chance.chance(this.#duplicate)) await this.#settle(outcomes);
  }
}

function settled(outcome: Outcome): SettledJob {
  const unstarted = outcome.to === "back" && outcome.unstarted;
  return { job: outcome.id, token: outcome.token, to: outcome.to, unstarted };
}

/** Writes down confirmations; they and cancellations are sent twice now and then. */
function recordedRates(
  inner: ConfirmingRateLimiterStorage,
  recorder: Recorder,
  { seed, duplicate }: RecordedOptions,
): ConfirmingRateLimiterStorage {
  const chance = new Seeded(seed).fork("cancel");
  return {
    setupDatabase: () => inner.setupDatabase(),
    recordExecution: (name) => inner.recordExecution(name),
    getExecutionCount: (name, since) => inner.getExecutionCount(name, since),
    getOldestExecutionAtOffset: (name, offset) => inner.getOldestExecutionAtOffset(name, offset),
    getNextAvailableTime: (name) => inner.getNextAvailableTime(name),
    setNextAvailableTime: (name, at) => inner.setNextAvailableTime(name, at),
    clear: (name) => inner.clear(name),
    tryRecordExecution: (limiter, window) => inner.tryRecordExecution(limiter, window),
    async cancelExecution(limiter, token) {
      await inner.cancelExecution(limiter, token);
      if (chance.chance(duplicate)) await inner.cancelExecution(limiter, token);
    },
    settleExecution: (limiter, token, weight) => inner.settleExecution(limiter, token, weight),
    async confirmExecution(limiter, calls) {
      const from = hr();
      await inner.confirmExecution(limiter, calls);
      const named = calls.map(({ token, calledInMs }) => ({ grant: token, calledInMs }));
      recorder.write({ op: "confirm", phase: "ok", from, calls: named });
      if (chance.chance(duplicate)) await inner.confirmExecution(limiter, calls);
    },
  };
}
