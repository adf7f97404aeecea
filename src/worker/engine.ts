import { afterAll, type Clock, type Mark, markOf } from "../core/clock.ts";
import { JobError, LimitConflictError } from "../core/errors.ts";
import type { JobEvent } from "../core/events.ts";
import type { JobRecord } from "../core/job.ts";
import { isDeclared } from "../limits/define.ts";
import { type Confirmations, confirmationsOf } from "../storage/confirmations.ts";
import { declareLimits, type LimitListener } from "../storage/declaring.ts";
import { registrarOf } from "../storage/registrar.ts";
import type { Claim, JobStorage, Outcome } from "../storage/job-storage.ts";
import { STEP_BYTES } from "../storage/step-bytes.ts";
import { settlingHere } from "../storage/waiters.ts";
import { type Admission, admissionFor, type Grant } from "./admission.ts";
import { ClaimSize } from "./claim-size.ts";
import { ClaimedStarts } from "./claimed-starts.ts";
import { ErrorReporter, type ErrorListener, type JobReference } from "./error-reporter.ts";
import { inTime } from "../core/deadline.ts";
import { Fairness } from "./fairness.ts";
import type { BatchHandler, Handler, Handlers } from "./handlers.ts";
import { InFlight } from "./in-flight.ts";
import type { WorkerOptions, WorkerSettings } from "./options.ts";
import { givenBack } from "./outcome.ts";
import { WakeUpTime } from "./wake-up-time.ts";
import { registration } from "./registration.ts";
import { Reporter } from "./reporter.ts";
import { Sleep } from "./sleep.ts";
import { Sweeper } from "./sweeper.ts";

/**
 * A handler is called within `GRANT_TTL_MS` of the claim, or never: the storage counts its start at the end of that time until it is
 * confirmed. If a storage takes longer to answer, the next claim asks for more time, up to the second number.
 */
const GRANT_TTL_MS = 2_000;
const LONGEST_GRANT_TTL_MS = 60_000;
/** Reported every time that grants of the limiter were too old for so many claims in a row. */
const REPORT_STALE = 5;
/** Reported when answers to claims came too late so many times in a row, once until one comes in time. */
const REPORT_LATE = 3;
/** Jobs that were aborted have so long to end; then they are given back. */
const LAST_GRACE_MS = 500;
/** The storage has so long to settle them; after that they return when their leases expire. */
const LAST_SETTLE_MS = 2_000;
/** When the storage has failed for so long, jobs that ended are settled one by one. */
const SETTLE_APART_AFTER_MS = 1_000;
/** The wait between tries when the storage fails, doubled each time, up to the second number. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2_000;

/**
 * The loop of a worker: claim, start, execute, settle, again. One claim at a time; jobs that ended while it was under way are
 * settled by the next one, in the same step. The loop sleeps when there is nothing to do, until it is woken up: by a job that
 * ended, by the storage, by the limiter, or at the wake-up time that the storage computed.
 */
export class Engine {
  readonly #queue: string;
  readonly #id: string;
  readonly #handlers: Handlers<Handler | BatchHandler>;
  readonly #settings: WorkerSettings;
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  readonly #sleep: Sleep;
  readonly #fairness: Fairness;
  readonly #wakeUpTime: WakeUpTime;
  /** Reports an error that does not come from a handler. */
  readonly #report: (error: unknown, job?: JobReference) => void;
  readonly #errors: ErrorReporter;
  readonly #admission: Admission;
  readonly #inFlight: InFlight;
  readonly #confirmations: Confirmations;
  readonly #sweeper: Sweeper;

  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #started: Promise<void> | undefined;
  /** Its limits were refused, and it will never start. */
  #refused = false;
  #looping: Promise<void> | undefined;
  #unsubscribe: () => void = () => {};
  #unregister: () => Promise<void> = () => Promise.resolve();
  #stopping: Promise<void> | undefined;
  #cutAt: (() => void) | undefined;
  /** Resolves when a worker that stops no longer waits for its storage. */
  readonly #gaveUp = Promise.withResolvers<void>();
  /** Aborts all waiting for answers of the storage. */
  readonly #ended = new AbortController();
  #grantTtl = GRANT_TTL_MS;
  readonly #size = new ClaimSize();
  /** For how many claims in a row grants of the limiter were too old. */
  #stale = 0;
  /** Jobs that were cancelled while a claim was under way: the claim may answer with them. */
  readonly #cancelled = new Set<string>();
  #claiming = false;
  #outcomes: Outcome[] = [];
  /** The latest claim got more jobs than could run: there may be more to prefetch. */
  #gotPrefetched = false;

  /** The storage answered the latest claim or settle before the event loop had its turn. */
  #answersAtOnce = false;

  /** The queue was found empty, and no wake-up came since. */
  #empty = false;
  /** A job has started since `drained` was last published. */
  #busy = false;
  #idle: (() => void)[] = [];

  constructor(queue: string, id: string, handlers: Handlers<Handler | BatchHandler>, settings: WorkerSettings) {
    this.#queue = queue;
    this.#id = id;
    this.#handlers = handlers;
    this.#settings = settings;
    this.#storage = settings.storage;
    this.#clock = settings.clock;
    this.#sleep = new Sleep(this.#clock);
    this.#fairness = new Fairness(this.#clock);
    this.#confirmations = confirmationsOf(this.#storage, this.#clock);
    this.#wakeUpTime = new WakeUpTime(settings.batch?.linger ?? 0);
    this.#errors = new ErrorReporter(queue, this.#clock, settings.onError as WorkerOptions["onError"]);
    this.#report = (error, job) => {
      if (this.#state !== "stopped") this.#errors.report(error, job);
    };
    this.#admission = admissionFor(settings.limiter, queue, id, {
      clock: this.#clock,
      free: () => (this.#state === "running" ? this.#inFlight.free : 0),
      atLeast: settings.batch?.size ?? 1,
      granted: () => this.#sleep.signal(),
      blocked: (blockedBy, retryInMs) => this.#blocked(blockedBy, retryInMs),
      failed: this.#report,
    });
    this.#sweeper = new Sweeper(this.#storage, this.#clock, settings.random, settings.lease, this.#report);
    this.#inFlight = new InFlight({
      storage: this.#storage,
      clock: this.#clock,
      concurrency: settings.concurrency,
      batchSize: settings.batch?.size,
      leaseMs: settings.lease,
      execution: {
        handlers,
        reporter: new Reporter(this.#storage, this.#clock, this.#report),
        random: settings.random,
        strategies: settings.backoffs,
        maxHolds: settings.maxHolds,
        admission: this.#admission,
        report: this.#report,
      },
      ended: (outcome) => {
        this.#outcomes.push(outcome);
        this.#sleep.signal();
      },
      freed: () => this.#sleep.signal(),
    });
  }

  get running(): number {
    return this.#inFlight.size - this.#inFlight.prefetched;
  }

  /** Calls the listener with errors that do not come from handlers, until the returned function is called. */
  onError(listener: ErrorListener): () => void {
    return this.#errors.listen(listener);
  }

  start(): Promise<void> {
    if (!this.#refused && (this.#state === "stopping" || this.#state === "stopped")) {
      return Promise.reject(new JobError("a stopped worker cannot start again: create a new one"));
    }
    this.#started ??= this.#begin();
    return this.#started;
  }

  async stop(timeout: number): Promise<void> {
    if (this.#state === "new") {
      this.#state = "stopped";
      this.#becameIdle();
    }
    if (this.#state === "stopped") return;
    if (this.#state === "running") {
      this.#state = "stopping";
      this.#admission.stop();
      this.#inFlight.giveBackPrefetched();
      this.#stopping = this.#end();
    }
    if (timeout === 0) this.#cutAll();
    const cancel = timeout === 0 ? () => {} : afterAll(this.#clock, timeout, () => this.#cutAll());
    this.#sleep.signal();
    await this.#stopping;
    cancel();
  }

  onIdle(): Promise<void> {
    if (this.#empty || this.#state === "stopped") return Promise.resolve();
    return new Promise((resolve) => {
      this.#idle.push(resolve);
      this.#sleep.signal();
    });
  }

  async #begin(): Promise<void> {
    // In a later microtask, so that the code that made the worker can add listeners or stop it first.
    await Promise.resolve();
    if (this.#state !== "new") return;
    this.#state = "running";
    for (let tries = 0; this.#state === "running"; tries++) {
      try {
        await this.#ask(() => this.#storage.setup());
        await this.#declare();
        if (this.#state === "running") this.#unsubscribe = this.#subscribe();
        break;
      } catch (error) {
        if (error instanceof LimitConflictError && this.#state === "running") return this.#refuse(error);
        this.#report(error);
        await this.#sleep.rest(retryIn(tries), () => this.#state !== "running");
      }
    }
    if (this.#state !== "running") return;
    this.#publish({ event: "worker-started", queue: this.#queue, worker: this.#id });
    this.#unregister = this.#register();
    this.#sweeper.start();
    this.#looping = this.#loop();
  }

  /** Declares the limits of the worker, before the first claim. */
  async #declare(): Promise<void> {
    const { limits, onLimitChange } = this.#settings;
    if (limits === undefined || isDeclared(limits) || this.#state !== "running") return;
    const listener = onLimitChange as LimitListener | undefined;
    await this.#ask(() => declareLimits(this.#storage, limits, `worker ${this.#id}`, listener));
  }

  /** Its limits differ from the stored ones, and it has `onConflict: "reject"`: another try would not help. */
  #refuse(conflict: LimitConflictError): never {
    this.#errors.reportLast(conflict);
    // Without a listener, and if `start()` is not awaited, the rejection stays unhandled and ends the process: a process whose worker
    // runs nothing must not go unnoticed.
    if (this.#errors.hasListener) this.#started?.catch(() => {});
    this.#refused = true;
    this.#state = "stopped";
    this.#admission.stop();
    this.#becameIdle();
    throw conflict;
  }

  /** The worker does not wait for its registration, and works without it. */
  #register(): () => Promise<void> {
    const worker = {
      id: this.#id,
      queue: this.#queue,
      types: this.#handlers.types,
      concurrency: this.#settings.concurrency,
      limits: (this.#settings.limits?.rules ?? []).map(({ name }) => name),
    };
    return registrarOf(this.#storage, this.#clock).add(registration(worker, this.#clock, this.#report));
  }

  #subscribe(): () => void {
    return this.#storage.subscribe({
      queue: this.#queue,
      wake: (mayStart) => {
        this.#empty = false;
        if (mayStart) this.#wakeUpTime.wakeUp();
        this.#sleep.signal();
      },
      cancelled: (ids) => {
        this.#inFlight.cancel(new Set(ids));
        if (this.#claiming) for (const id of ids) this.#cancelled.add(id);
      },
    });
  }

  async #end(): Promise<void> {
    const done = async () => {
      await this.#started;
      await this.#looping;
    };
    await Promise.race([done(), this.#gaveUp.promise]);
    this.#outcomes = [];
    this.#state = "stopped";
    this.#ended.abort(new JobError("the worker was stopped"));
    this.#sleep.signal();
    this.#cutAt?.();
    this.#inFlight.close();
    this.#sweeper.stop();
    this.#unsubscribe();
    this.#becameIdle();
    const stopped = { event: "worker-stopped", queue: this.#queue, worker: this.#id } as const;
    const leave = async () => {
      await this.#confirmations.flush();
      await Promise.allSettled([this.#unregister(), this.#storage.publish(stopped)]);
    };
    await inTime(this.#clock, leave, { withinMs: LAST_SETTLE_MS }).catch(() => {});
  }

  /** The time to stop is up: running jobs are aborted, and those that do not end are given back. */
  #cutAll(): void {
    // The time may be up while the worker is being unregistered.
    if (this.#state === "stopped") return;
    this.#inFlight.stop();
    this.#cutAt ??= afterAll(this.#clock, LAST_GRACE_MS, () => {
      this.#inFlight.abandon();
      this.#cutAt = afterAll(this.#clock, LAST_SETTLE_MS, () => this.#gaveUp.resolve());
    });
  }

  get #over(): boolean {
    if (this.#state === "stopped") return true;
    return this.#state === "stopping" && this.#inFlight.size === 0 && this.#outcomes.length === 0;
  }

  async #loop(): Promise<void> {
    let failures = 0;
    let failingSince = 0;
    while (!this.#over) {
      // Prefetched jobs start without this loop: jobs that end in one turn of the event loop are settled together. A storage in this
      // process would settle them one by one: measured on SQLite, that is half of the time of a job that does nothing.
      // A storage over a network gathers them itself, while it answers.
      const gathers = this.#answersAtOnce && this.#inFlight.prefetched > 0;
      const turn = gathers ? this.#fairness.turn() : this.#fairness.step();
      if (turn !== undefined) await turn;
      this.#sleep.begin();
      try {
        await this.#turn();
        failures = 0;
      } catch (error) {
        if (failures === 0) failingSince = this.#clock.now();
        this.#report(error);
        failures += 1;
        const forMs = this.#clock.now() - failingSince;
        if (forMs >= SETTLE_APART_AFTER_MS) await this.#settleApart(forMs >= this.#settings.lease);
        await this.#sleep.rest(retryIn(failures), () => this.#state === "stopped");
        continue;
      }
      if (!this.#sleep.signalled && !this.#over) await this.#sleep.pause(this.#wakeUpTime.nextAt - this.#clock.now());
    }
  }

  /**
   * One outcome that the storage cannot write must not hold up the others. Each is settled on its own; an outcome that is refused
   * while others are written, or for as long as a lease, is given up, and its job returns when the lease expires.
   */
  async #settleApart(expired: boolean): Promise<void> {
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    const refused: Outcome[] = [];
    for (const outcome of outcomes) {
      await this.#ask(() => this.#storage.settle([outcome])).catch(() => refused.push(outcome));
    }
    if (!expired && refused.length === outcomes.length) this.#outcomes.unshift(...refused);
    else
      for (const { id } of refused)
        this.#report(
          new JobError(`the outcome of job ${id} could not be written: it runs again when its lease expires`),
        );
  }

  /** The answer of the storage; rejects if it takes too long or the worker has stopped. */
  #ask<T>(ask: () => Promise<T>, late?: (answer: T) => void): Promise<T> {
    return inTime(this.#clock, ask, { late, signal: this.#ended.signal });
  }

  /** Settles jobs that ended, claims jobs that may start, and starts them. */
  async #turn(): Promise<void> {
    this.#inFlight.check();
    const free = this.#state === "running" ? this.#inFlight.free : 0;
    const now = this.#clock.now();
    const lingers = this.#wakeUpTime.lingers(now);
    if (free === 0) this.#admission.use(0);
    // A batch waits until the limiter has answered for all jobs that could run.
    const gathers = this.#settings.batch !== undefined && this.#admission.asking;
    const max = lingers || gathers ? 0 : Math.min(this.#size.jobs, this.#admission.ready(free));
    const prefetch = Math.min(this.#size.jobs - max, this.#prefetchCount(free));
    if (this.#outcomes.length === 0 && !this.#mayFindWork(free + prefetch, max + prefetch, now)) {
      // Another limit blocks: grants of the limiter are given back, so that other callers can have them.
      if (!this.#admission.asking) this.#admission.use(0);
      return;
    }
    const { settle, rest } = firstOf(latestOf(this.#outcomes));
    this.#outcomes = [...rest];
    if (rest.length > 0) this.#sleep.signal();
    if (free + prefetch === 0) {
      await this.#settling(
        settle,
        () => this.#ask(() => this.#storage.settle(settle)),
        (lost) => lost,
      );
      this.#wakeUpTime.rest();
      return;
    }
    const request = {
      queue: this.#queue,
      worker: this.#id,
      max,
      ahead: prefetch,
      maxBytes: this.#size.bytes,
      types: this.#handlers.types,
      leaseMs: this.#settings.lease,
      limits: this.#admission.limits,
      settle,
      grantTtlMs: this.#grantTtl,
    };
    this.#claiming = true;
    this.#cancelled.clear();
    this.#wakeUpTime.claims(now);
    const asked = markOf(this.#clock);
    const claim = await this.#confirmations.carriedBy((confirm) =>
      this.#settling(
        settle,
        () =>
          // Jobs of an answer that comes after the deadline are too old to start.
          this.#ask(
            () => this.#storage.claim({ ...request, confirm }),
            (late) => this.#giveBack(late),
          ).catch((error: unknown) => {
            this.#size.failed();
            throw error;
          }),
        ({ stale }) => stale,
      ),
    );
    this.#claiming = false;
    this.#gotPrefetched = claim.jobs.length > max;
    // `nextInMs` counts from here: calling handlers takes time.
    const answeredAt = this.#clock.now();
    this.#startAll(claim, asked, this.#admission.use(claim.jobs.length));
    this.#planNext(claim, { max: max + prefetch, lingers, answeredAt });
  }

  /**
   * How many more jobs to claim than can run. While all slots are in use, a claim is worth its round trip only if the latest one got
   * prefetched jobs, and half of these have started.
   */
  #prefetchCount(free: number): number {
    if (this.#state !== "running" || !this.#admission.open || !this.#settings.ahead) return 0;
    const wanted = this.#inFlight.prefetchSize();
    const { prefetched } = this.#inFlight;
    if (free === 0 && (!this.#gotPrefetched || 2 * prefetched > wanted)) return 0;
    return Math.max(0, wanted - prefetched);
  }

  /** Could a claim get anything? */
  #mayFindWork(free: number, max: number, now: number): boolean {
    if (free === 0) {
      this.#wakeUpTime.rest();
      return false;
    }
    if (max > 0 || !this.#admission.asking) return this.#wakeUpTime.mayClaim(now);
    return this.#wakeUpTime.mayPeek(now, this.#idle.length > 0 && !this.#empty);
  }

  /** Outcomes that could not be settled are settled the next time. Waiters of this process are resolved for all jobs but those of `lostOf`. */
  async #settling<T>(
    settle: readonly Outcome[],
    step: () => Promise<T>,
    lostOf: (answer: T) => readonly string[],
  ): Promise<T> {
    const settled = settlingHere(this.#storage, settle);
    try {
      const { turns } = this.#fairness;
      const answer = await step();
      this.#answersAtOnce = turns === this.#fairness.turns;
      settled?.(lostOf(answer));
      return answer;
    } catch (error) {
      settled?.(undefined);
      this.#outcomes.unshift(...settle);
      this.#claiming = false;
      this.#admission.use(0);
      this.#wakeUpTime.wakeUp();
      throw error;
    }
  }

  #startAll(claim: Claim, asked: Mark, grants: readonly Grant[]): void {
    const { jobs, grant } = claim;
    if (jobs.length === 0) return;
    this.#busy = true;
    this.#empty = false;
    const now = this.#clock.now();
    const ttl = this.#grantTtl;
    const starts = grant && this.#startsOf(grant, asked, jobs.length);
    const late = starts?.late === true;
    const stale = grants.some((one) => one.late);
    if (late) this.#grantTtl = Math.min(2 * this.#grantTtl, LONGEST_GRANT_TTL_MS);
    else if (now - asked.now <= GRANT_TTL_MS) this.#grantTtl = GRANT_TTL_MS;
    // A job whose lease is half over is not started either: the lease may expire, and another worker may start the job.
    const tookMs = now - asked.now;
    const allowedMs = Math.min(this.#settings.lease / 2, starts === undefined ? Number.POSITIVE_INFINITY : ttl);
    const expired = tookMs >= this.#settings.lease / 2;
    if (late || stale || expired || this.#state !== "running") {
      for (const one of grants) this.#safely(async () => one.cancel());
      if (stale) this.#metStale();
      else if (late || expired) this.#metLate(jobs, tookMs, allowedMs);
      return this.#giveBack(claim);
    }
    this.#stale = 0;
    this.#size.inTime(tookMs, allowedMs);
    const leasedUntil = asked.now + this.#settings.lease;
    const { defaults: withTimeout } = this.#settings;
    this.#inFlight.add(
      withTimeout === undefined ? jobs : jobs.map(withTimeout),
      { claimedAt: now, leasedUntil, grants, starts },
      this.#cancelled,
    );
  }

  /** Grants of the limiter were too old when jobs had been claimed for them. If that is always so, nothing ever starts. */
  #metStale(): void {
    this.#stale += 1;
    if (this.#stale % REPORT_STALE !== 0) return;
    this.#report(
      new JobError(
        `the grants of the limiter were too old ${this.#stale} times in a row when jobs had been claimed for them: ` +
          "give the limiter a longer `grantTtl`, or reduce the load of the storage",
      ),
    );
  }

  /** The answer to a claim came too late to start its jobs. The next claim asks for less. */
  #metLate(jobs: readonly JobRecord[], tookMs: number, allowedMs: number): void {
    const bytes = jobs.reduce((sum, { data }) => sum + data.length, 0);
    const times = this.#size.late({ jobs: jobs.length, bytes });
    if (times !== REPORT_LATE) return;
    this.#report(
      new JobError(
        `claims were answered too late ${times} times in a row, and their jobs given back: the latest took ` +
          `${Math.round(tookMs) / 1_000} s for ${jobs.length} jobs with ${bytes} bytes of data, and ${allowedMs / 1_000} s are ` +
          "allowed. The worker asks for less; if that does not help, bring it nearer to its storage, keep large data " +
          "elsewhere and pass a reference, or give it a longer `lease`",
      ),
    );
  }

  /** The starts that the claim counted under limits that go by time. */
  #startsOf(grant: NonNullable<Claim["grant"]>, asked: Mark, count: number): ClaimedStarts {
    return new ClaimedStarts({
      clock: this.#clock,
      asked,
      grantTtlMs: this.#grantTtl,
      grant,
      count,
      confirm: (confirmation, inMs) => this.#confirmations.add(confirmation, inMs),
    });
  }

  /** Gives back all jobs of a claim. None of their handlers was called, so the grant is confirmed at once. */
  #giveBack({ jobs, grant }: Claim): void {
    if (grant !== undefined) this.#confirmations.add({ grant: grant.id, calledInMs: 0 }, grant.confirmInMs);
    const back = jobs.map((job) => givenBack(job));
    // After the last turn of the loop no other call would settle them.
    if (this.#state === "stopped" && back.length > 0) this.#safely(() => this.#storage.settle(back));
    else this.#outcomes.push(...back);
    this.#sleep.signal();
  }

  /** Decides what to do next, by the answer to the claim. */
  #planNext(claim: Claim, { max, lingers, answeredAt }: Asked): void {
    const { jobs, more, nextInMs, blockedBy } = claim;
    const reports = this.#wakeUpTime.answered(claim, max, lingers, answeredAt);
    if (reports) this.#blocked(blockedBy!, nextInMs);
    if (more && !lingers) this.#admission.want();
    const empty = jobs.length === 0 && !more && nextInMs === null && blockedBy === null;
    if (empty && !this.#sleep.signalled && this.#inFlight.size === 0 && this.#outcomes.length === 0) this.#foundEmpty();
  }

  #foundEmpty(): void {
    if (this.#busy) this.#publish({ event: "drained", queue: this.#queue, worker: this.#id });
    this.#busy = false;
    this.#becameIdle();
  }

  #becameIdle(): void {
    this.#empty = true;
    for (const resolve of this.#idle.splice(0)) resolve();
  }

  #blocked(blockedBy: string, retryInMs: number | null): void {
    this.#publish({ event: "rate-limited", queue: this.#queue, worker: this.#id, blockedBy, retryInMs });
  }

  #publish(event: JobEvent): void {
    this.#safely(() => this.#storage.publish(event));
  }

  #safely(step: () => Promise<unknown>): void {
    (async () => step())().catch((error: unknown) => this.#report(error));
  }
}

/** The claim that was made, and when its answer came. */
interface Asked {
  readonly max: number;
  readonly lingers: boolean;
  readonly answeredAt: number;
}

/** The latest outcome of each job: if a job was lost and claimed again, the outcome under its older lease is stale. */
function latestOf(outcomes: readonly Outcome[]): readonly Outcome[] {
  if (outcomes.length < 2) return outcomes;
  const latest = new Map<string, Outcome>();
  for (const outcome of outcomes) {
    if ((latest.get(outcome.id)?.token ?? 0) < outcome.token) latest.set(outcome.id, outcome);
  }
  return latest.size === outcomes.length ? outcomes : [...latest.values()];
}

/** As many outcomes as fit into `STEP_BYTES`, at least one. */
function firstOf(outcomes: readonly Outcome[]): { settle: readonly Outcome[]; rest: readonly Outcome[] } {
  let bytes = 0;
  const end = outcomes.findIndex((outcome, i) => (bytes += sizeOf(outcome)) > STEP_BYTES && i > 0);
  return end < 0 ? { settle: outcomes, rest: [] } : { settle: outcomes.slice(0, end), rest: outcomes.slice(end) };
}

function sizeOf(outcome: Outcome): number {
  if (outcome.to === "completed") return outcome.result?.length ?? 0;
  return (outcome.error?.message.length ?? 0) + (outcome.error?.stack?.length ?? 0);
}

function retryIn(failures: number): number {
  return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures);
}
