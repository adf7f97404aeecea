import type { JobRecord, JobState } from "../../src/core/job.ts";
import type {
  Added,
  ChangeAction,
  ClaimLimit,
  ClaimRequest,
  JobUpdate,
  Lease,
  NewJob,
  Outcome,
} from "../../src/storage/job-storage.ts";

/** A job as the model sees it: `queued` is waiting or scheduled, by the clock. */
export interface ModelJob {
  readonly id: string;
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  readonly maxAttempts: number;
  readonly keepFor: number | null;
  deadline: number | null;
  state: "queued" | "active" | "completed" | "dead" | "cancelled";
  attempt: number;
  holds: number;
  dueAt: number;
  /** While it backs off: the place that it takes when that is over. */
  firstDueAt: number | null;
  startedAt: number | null;
  finishedAt: number | null;
  leaseUntil: number | null;
  token: number;
  cancelRequested: boolean;
  /** A sweep took its latest lease away. */
  stalled: boolean;
  failures: number;
  /** Ids of the starts that were counted for it. */
  starts: readonly { readonly key: string; readonly start: number }[];
}

interface ModelKey {
  readonly queue: string;
  readonly key: string;
  readonly fingerprint: string;
  readonly id: string;
  readonly expiresAt: number;
}

/** The part of the model that adding can change, and that a failure puts back. */
interface Kept {
  jobs: ModelJob[];
  keys: ModelKey[];
}

const DAY = 86_400_000;

/**
 * What a storage must do, as simply as it can be said: everything in arrays, every question a search through all of them.
 * It shares nothing with any storage.
 */
export class Model {
  now: number;
  kept: Kept = { jobs: [], keys: [] };
  readonly paused = new Set<string>();
  /** Every lease there ever was. */
  readonly leases: Lease[] = [];
  /** Every start there ever was: which unit gave it, and to a claim for which types. Its number is its place. */
  readonly served: { readonly unit: string; readonly types: readonly string[] | null; readonly sure: boolean }[] = [];
  /** How many starts there had been when it was first certain that a job of this type waited in this unit. */
  readonly opened = new Map<string, number>();
  starts: { readonly key: string; readonly at: number; readonly id: number }[] = [];
  readonly pauses = new Map<string, number>();
  started = 0;
  token = 0;
  added = 0;

  constructor(now: number) {
    this.now = now;
  }

  /** Time goes on. Jobs whose back-off is over take their old places. */
  advance(by: number): void {
    this.now += by;
    for (const job of this.kept.jobs) {
      if (job.state !== "queued" || job.firstDueAt === null || job.dueAt > this.now) continue;
      Object.assign(job, { dueAt: job.firstDueAt, firstDueAt: null });
    }
  }

  job(id: string): ModelJob | undefined {
    return this.kept.jobs.find((job) => job.id === id);
  }

  /** Either the answers, or the refusal: then nothing has changed. */
  add(jobs: readonly NewJob[]): Added[] | "SLUICE_DUPLICATE" {
    const before: Kept = { jobs: [...this.kept.jobs], keys: [...this.kept.keys] };
    const answers: Added[] = [];
    for (const job of jobs) {
      const answer = this.addOne(job);
      if (answer === undefined) {
        this.kept = before;
        return "SLUICE_DUPLICATE";
      }
      answers.push(answer);
    }
    for (const { id } of answers) {
      const job = this.job(id);
      if (job?.state === "queued" && job.dueAt <= this.now) this.open(job);
    }
    return answers;
  }

  addOne(job: NewJob): Added | undefined {
    const { id, queue, idempotency } = job;
    if (this.job(id) !== undefined) return { id, created: false };
    if (idempotency !== null) {
      const { key, fingerprint, ttlMs, onDuplicate } = idempotency;
      const same = (other: ModelKey) => other.queue === queue && other.key === key;
      const holder = this.kept.keys.find((other) => same(other) && other.expiresAt > this.now);
      if (holder !== undefined && holder.id === id) return { id, created: false };
      if (holder !== undefined) {
        if (onDuplicate === "reject") return undefined;
        if (onDuplicate === "return") {
          return holder.fingerprint === fingerprint ? { id: holder.id, created: false } : undefined;
        }
        const other = this.job(holder.id);
        if (other?.state === "active") return undefined;
        if (other?.state === "queued") this.remove(other);
      }
      this.kept.keys = this.kept.keys.filter((other) => !same(other));
      this.kept.keys.push({ queue, key, fingerprint, id, expiresAt: this.now + ttlMs });
    }
    const instant = (when: NewJob["due"]) => ("at" in when ? when.at : this.now + when.inMs);
    this.kept.jobs.push({
      id,
      queue,
      type: job.type,
      priority: job.priority,
      group: job.group,
      maxAttempts: job.maxAttempts,
      keepFor: job.keepFor,
      deadline: job.deadline === null ? null : instant(job.deadline),
      state: "queued",
      attempt: 0,
      holds: 0,
      dueAt: Math.max(this.now, instant(job.due)),
      firstDueAt: null,
      startedAt: null,
      finishedAt: null,
      leaseUntil: null,
      token: 0,
      stalled: false,
      cancelRequested: false,
      failures: 0,
      starts: [],
    });
    return { id, created: true };
  }

  /** A change sees the jobs as they were at this moment. */
  remove(job: ModelJob): void {
    this.kept.jobs = this.kept.jobs.filter((other) => other !== job);
  }

  end(job: ModelJob, state: "completed" | "dead" | "cancelled"): void {
    job.state = state;
    job.finishedAt = this.now;
    job.leaseUntil = null;
    if (state === "completed" && job.keepFor === 0) this.remove(job);
  }

  held({ id, token }: Lease): ModelJob | undefined {
    const job = this.job(id);
    return job?.state === "active" && job.token === token ? job : undefined;
  }

  settle(outcomes: readonly Outcome[]): string[] {
    return outcomes.filter((outcome) => !this.settleOne(outcome)).map(({ id }) => id);
  }

  settleOne(outcome: Outcome): boolean {
    const job = this.held(outcome);
    if (job === undefined) {
      this.unspend(outcome);
      return false;
    }
    if (outcome.to === "completed" || outcome.to === "dead" || outcome.to === "cancelled") {
      if (outcome.to !== "completed" && outcome.error !== null) job.failures += 1;
      this.end(job, outcome.to);
      return true;
    }
    if (outcome.to === "retry") {
      job.failures += 1;
    } else {
      job.attempt -= 1;
      if (outcome.held) job.holds += 1;
      for (const key of outcome.hold?.names ?? []) this.pause(key, this.now + outcome.hold!.forMs);
      const back = new Set(outcome.unstarted ? job.starts.map(({ start }) => start) : []);
      this.starts = this.starts.filter(({ id }) => !back.has(id));
    }
    job.leaseUntil = null;
    if (job.cancelRequested) {
      this.end(job, "cancelled");
      return true;
    }
    job.state = "queued";
    if (outcome.inMs > 0) Object.assign(job, { firstDueAt: job.dueAt, dueAt: this.now + outcome.inMs });
    return true;
  }

  /** A job that was never started gets its attempt back, though its lease expired. */
  unspend(outcome: Outcome): void {
    if (outcome.to !== "back" || !outcome.unstarted) return;
    const job = this.kept.jobs.find(
      ({ id, token, stalled }) => id === outcome.id && token === outcome.token && stalled,
    );
    const last = job?.state === "dead" && job.attempt >= job.maxAttempts;
    if (job === undefined || !(last || job.state === "queued")) return;
    Object.assign(job, { stalled: false, attempt: job.attempt - 1, failures: job.failures - 1 });
    Object.assign(job, { state: "queued", finishedAt: null });
  }

  pause(key: string, until: number): void {
    this.pauses.set(key, Math.max(until, this.pauses.get(key) ?? 0));
  }

  /** How long until one more start fits under the limit. */
  wait({ key, max, windowMs }: ClaimLimit): number {
    const inWindow = this.starts.filter((start) => start.key === key && this.now - start.at < windowMs);
    const leaving = inWindow.length - max;
    const window = leaving < 0 ? 0 : inWindow[leaving]!.at + windowMs - this.now;
    return Math.max(0, window, (this.pauses.get(key) ?? 0) - this.now);
  }

  /** How many starts fit under all limits. */
  available(limits: readonly ClaimLimit[]): number {
    return Math.min(
      Number.POSITIVE_INFINITY,
      ...limits.map((limit) => {
        const { key, max, windowMs } = limit;
        if (this.wait(limit) > 0) return 0;
        return max - this.starts.filter((start) => start.key === key && this.now - start.at < windowMs).length;
      }),
    );
  }

  endLate(): void {
    for (const job of this.kept.jobs) {
      if (job.state === "queued" && job.deadline !== null && job.deadline <= this.now) this.end(job, "dead");
    }
  }

  /** Jobs that a claim of these types could take, were there no limits: those due now, or those to come. */
  claimable({ queue, types }: Pick<ClaimRequest, "queue" | "types">, due: boolean): ModelJob[] {
    if (this.paused.has(queue)) return [];
    return this.kept.jobs.filter(
      (job) =>
        job.queue === queue &&
        job.state === "queued" &&
        job.dueAt <= this.now === due &&
        (types === null || types.includes(job.type)) &&
        !this.paused.has(`${queue}/${job.type}`),
    );
  }

  /** Every job that may be the next to start. Several only where the order of units is left open: any of them may be. */
  next(request: Pick<ClaimRequest, "queue" | "types">): ModelJob[] {
    const jobs = this.claimable(request, true);
    for (const job of jobs) this.open(job);
    const priority = Math.max(...jobs.map((job) => job.priority));
    const units = Map.groupBy(
      jobs.filter((job) => job.priority === priority),
      unitOf,
    );
    const ranked = [...units.values()].map((waiting) => ({
      first: waiting.toSorted((a, b) => a.dueAt - b.dueAt)[0]!,
      turn: this.turn(waiting),
    }));
    return ranked
      .filter(({ turn }) => ranked.every((other) => turn.earliest <= other.turn.latest))
      .map(({ first }) => first);
  }

  /**
   * When a unit had its turn, for a claim that may take these jobs of it: of their types, the one for which that was the
   * longest ago. A unit has its turn for a type when it gives something to a claim that asked for the type.
   *
   * Before that the type stands where the unit stood when its first job waited, or at the beginning. A claim that met no groups
   * may have been a turn of the jobs without one, or not.
   */
  turn(jobs: readonly ModelJob[]): { earliest: number; latest: number } {
    let [earliest, latest] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (const job of jobs) {
      const { type } = job;
      const unit = unitOf(job);
      const own = this.served.map((one) => one.unit === unit && (one.types?.includes(type) ?? true));
      const turn = 1 + own.lastIndexOf(true);
      const opened = this.opened.get(laneOf(job)) ?? this.served.length;
      const inherited = 1 + this.served.slice(0, opened).findLastIndex((one) => one.unit === unit);
      earliest = Math.min(earliest, 1 + this.served.findLastIndex((one, i) => own[i] === true && one.sure));
      latest = Math.min(latest, Math.max(turn, inherited));
    }
    return { earliest, latest };
  }

  /** The job waits now, for certain. */
  open(job: ModelJob): void {
    const lane = laneOf(job);
    if (!this.opened.has(lane)) this.opened.set(lane, this.served.length);
  }

  start(
    job: ModelJob,
    { queue, leaseMs, limits, types }: Pick<ClaimRequest, "queue" | "leaseMs" | "limits" | "types">,
    token: number,
  ): void {
    const sure = this.claimable({ queue, types }, true).some(({ group }) => group !== null);
    job.state = "active";
    job.attempt += 1;
    job.startedAt = this.now;
    job.leaseUntil = this.now + leaseMs;
    job.token = token;
    job.stalled = false;
    this.served.push({ unit: unitOf(job), types, sure });
    const keys = [...new Set(limits.map(({ key }) => key))];
    job.starts = keys.map((key) => ({ key, start: this.count(key) }));
    this.leases.push({ id: job.id, token });
  }

  /** Counts one start, and names it. */
  count(key: string): number {
    this.started += 1;
    this.starts.push({ key, at: this.now, id: this.started });
    return this.started;
  }

  sweep(): number {
    const stalled = this.kept.jobs.filter((job) => job.state === "active" && job.leaseUntil! <= this.now);
    for (const job of stalled) {
      job.failures += 1;
      job.stalled = true;
      job.leaseUntil = null;
      if (job.cancelRequested) this.end(job, "cancelled");
      else if (job.attempt >= job.maxAttempts) this.end(job, "dead");
      else job.state = "queued";
    }
    this.endLate();
    for (const job of this.kept.jobs) {
      if (job.finishedAt === null) continue;
      const kept = job.keepFor ?? (job.state === "dead" ? 30 * DAY : DAY);
      if (job.finishedAt + kept <= this.now) this.remove(job);
    }
    return stalled.length;
  }

  /** False: it is left as it is. */
  update(job: ModelJob, { priority, group, due, deadline, ...plain }: JobUpdate["set"]): boolean {
    if (job.state !== "queued") return false;
    const instant = (when: NewJob["due"]) => ("at" in when ? when.at : this.now + when.inMs);
    Object.assign(job, plain, priority !== undefined && { priority }, group !== undefined && { group });
    if (due !== undefined) Object.assign(job, { dueAt: Math.max(this.now, instant(due)), firstDueAt: null });
    if (deadline !== undefined) job.deadline = deadline === null ? null : instant(deadline);
    return true;
  }

  change(action: ChangeAction, job: ModelJob): boolean {
    const ended = job.finishedAt !== null;
    switch (action) {
      case "cancel":
        if (ended || job.cancelRequested) return false;
        if (job.state === "active") job.cancelRequested = true;
        else this.end(job, "cancelled");
        return true;
      case "retry":
        if (!ended) return false;
        Object.assign(job, { state: "queued", attempt: 0, holds: 0, cancelRequested: false, finishedAt: null });
        if (job.deadline !== null && job.deadline <= this.now) job.deadline = null;
        Object.assign(job, { dueAt: this.now, firstDueAt: null, stalled: false });
        return true;
      case "promote":
        if (job.state !== "queued" || job.dueAt <= this.now) return false;
        Object.assign(job, { dueAt: job.firstDueAt ?? this.now, firstDueAt: null });
        return true;
      case "remove":
        break;
    }
    if (job.state === "active") return false;
    this.remove(job);
    return true;
  }
}

/** What takes turns. */
function unitOf({ queue, priority, group }: ModelJob): string {
  return JSON.stringify([queue, priority, group]);
}

function laneOf(job: ModelJob): string {
  return JSON.stringify([unitOf(job), job.type]);
}

/** What model and storage must agree on about a job. */
export function view(job: ModelJob | JobRecord, now: number) {
  const { id, attempt, holds, dueAt, startedAt, finishedAt, leaseUntil, token, cancelRequested, deadline } = job;
  return {
    id,
    state: visible(job.state, dueAt, now),
    attempt,
    holds,
    dueAt,
    startedAt,
    finishedAt,
    leaseUntil,
    token,
    cancelRequested,
    deadline,
  };
}

/** A scheduled job that has come due may be called so until the next claim. */
function visible(state: JobState | "queued", dueAt: number, now: number): string {
  if (state !== "queued" && state !== "waiting" && state !== "scheduled") return state;
  if (dueAt > now) return state === "waiting" ? "waiting before it is due" : "scheduled";
  return "due";
}
