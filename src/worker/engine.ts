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
import { Complaints, type ErrorListener, type JobReference } from "./complaints.ts";
import { inTime } from "../core/deadline.ts";
import { Fairness } from "./fairness.ts";
import type { BatchHandler, Handler, Handlers } from "./handlers.ts";
import { Hands } from "./hands.ts";
import type { WorkerOptions, WorkerSettings } from "./options.ts";
import { givenBack } from "./outcome.ts";
import { Outlook } from "./outlook.ts";
import { registration } from "./registration.ts";
import { Reporter } from "./reporter.ts";
import { Sleep } from "./sleep.ts";
import { Sweeper } from "./sweeper.ts";

/**
 * A handler is called within so long of asking for its start, or never: the storage counts with that until it knows better. If
 * a storage takes longer to answer, the next claim asks for more time, up to the second number.
 */
const GRANT_TTL_MS = 2_000;
const LONGEST_GRANT_TTL_MS = 60_000;
/** Every so many times that grants of the limiter are too old it is told. */
const TELL_STALE = 5;
/** When answers to claims came too late so many times in a row it is told, once until one comes in time. */
const TELL_LATE = 3;
/** Jobs that were told to stop have so long to end; then they are given back as they are. */
const LAST_GRACE_MS = 500;
/** And the storage has so long to take them back; else they come back when their leases expire. */
const LAST_WORDS_MS = 2_000;
/** When the storage has failed for so long, what ended is settled one by one. */
const SETTLE_APART_AFTER_MS = 1_000;
/** Waits between tries when the storage fails, doubled each time. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2_000;

/**
 * The heart of a worker: claim, start, execute, settle, again. One claim at a time; what ended while it was under way is
 * settled by the next one, in the same step. It sleeps when there is nothing to do, until it is woken: by a job that
 * ended, by the storage, by its limiter, or at the instant that the storage computed.
 */
export class Engine {
  readonly #queue: string;
  readonly #id: string;
  readonly #handlers: Handlers<Handler | BatchHandler>;
  readonly #settings: WorkerSettings;
  readonly #storage: JobStorage;
  readonly #clock: Clock;
  readonly #sleep: Sleep;
  readonly #outlook: Outlook;
  /** Hears of what goes wrong outside of handlers. */
  readonly #report: (error: unknown, job?: JobReference) => void;
  readonly #complaints: Complaints;
  readonly #admission: Admission;
  readonly #hands: Hands;
  readonly #confirmations: Confirmations;
  readonly #sweeper: Sweeper;

  #state: "new" | "running" | "stopping" | "stopped" = "new";
  #started: Promise<void> | undefined;
  /** It was refused, and will never start. */
  #refused = false;
  #looping: Promise<void> | undefined;
  #unsubscribe: () => void = () => {};
  #unregister: () => Promise<void> = () => Promise.resolve();
  #stopping: Promise<void> | undefined;
  #cutAt: (() => void) | undefined;
  /** Resolves when a worker that stops waits no longer for its storage. */
  readonly #gaveUp = Promise.withResolvers<void>();
  /** Ends all waiting for answers. */
  readonly #ended = new AbortController();
  #grantTtl = GRANT_TTL_MS;
  readonly #size = new ClaimSize();
  /** How often in a row grants of the limiter were too old. */
  #stale = 0;
  /** Who was to be cancelled while a claim was under way: the claim may bring them. */
  readonly #cancelled = new Set<string>();
  #claiming = false;
  #outcomes: Outcome[] = [];
  /** The latest claim was given more than could run: there may be more to take ahead. */
  #ahead = false;

  /** The queue was found empty, and nothing was heard since. */
  #empty = false;
  /** Something was done since that was last told. */
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
    this.#confirmations = confirmationsOf(this.#storage, this.#clock);
    this.#outlook = new Outlook(settings.batch?.linger ?? 0);
    this.#complaints = new Complaints(queue, this.#clock, settings.onError as WorkerOptions["onError"]);
    this.#report = (error, job) => {
      if (this.#state !== "stopped") this.#complaints.report(error, job);
    };
    this.#admission = admissionFor(settings.limiter, queue, id, {
      clock: this.#clock,
      free: () => (this.#state === "running" ? this.#hands.free : 0),
      atLeast: settings.batch?.size ?? 1,
      granted: () => this.#sleep.signal(),
      blocked: (blockedBy, retryInMs) => this.#blocked(blockedBy, retryInMs),
      failed: this.#report,
    });
    this.#sweeper = new Sweeper(this.#storage, this.#clock, settings.random, settings.lease, this.#report);
    this.#hands = new Hands({
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
    return this.#hands.size - this.#hands.waiting;
  }

  /** Calls back with what goes wrong outside of handlers, until the returned function is called. */
  onError(listener: ErrorListener): () => void {
    return this.#complaints.listen(listener);
  }

  start(): Promise<void> {
    if (!this.#refused && (this.#state === "stopping" || this.#state === "stopped")) {
      return Promise.reject(new JobError("the worker was stopped: make another one"));
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
      this.#hands.giveBackWaiting();
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
    // A turn of its own: whoever made the worker can still listen, or stop it.
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

  /** Nothing is claimed before the limits are known that it is to run under. */
  async #declare(): Promise<void> {
    const { limits, onLimitChange } = this.#settings;
    if (limits === undefined || isDeclared(limits) || this.#state !== "running") return;
    const listener = onLimitChange as LimitListener | undefined;
    await this.#ask(() => declareLimits(this.#storage, limits, `worker ${this.#id}`, listener));
  }

  /** What it declares is in conflict with what is stored, and it asked to be rejected then: trying again would not help. */
  #refuse(conflict: LimitConflictError): never {
    this.#complaints.reportLast(conflict);
    // Without a listener, and where `start()` is not awaited, the rejection is left unhandled, which ends the process: it must not
    // live on without running anything.
    if (this.#complaints.heard) this.#started?.catch(() => {});
    this.#refused = true;
    this.#state = "stopped";
    this.#admission.stop();
    this.#becameIdle();
    throw conflict;
  }

  /** Nothing waits for it: a worker that is not registered works all the same. */
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
      wake: (news) => {
        this.#empty = false;
        if (news) this.#outlook.heardNews();
        this.#sleep.signal();
      },
      cancelled: (ids) => {
        this.#hands.cancel(new Set(ids));
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
    this.#hands.close();
    this.#sweeper.stop();
    this.#unsubscribe();
    this.#becameIdle();
    const stopped = { event: "worker-stopped", queue: this.#queue, worker: this.#id } as const;
    const lastWords = async () => {
      await this.#confirmations.flush();
      await Promise.allSettled([this.#unregister(), this.#storage.publish(stopped)]);
    };
    await inTime(this.#clock, lastWords, { withinMs: LAST_WORDS_MS }).catch(() => {});
  }

  /** Time is up: what still runs is told to stop, and what does not listen is given back as it is. */
  #cutAll(): void {
    // It may be up while the last words are said.
    if (this.#state === "stopped") return;
    this.#hands.stop();
    this.#cutAt ??= afterAll(this.#clock, LAST_GRACE_MS, () => {
      this.#hands.abandon();
      this.#cutAt = afterAll(this.#clock, LAST_WORDS_MS, () => this.#gaveUp.resolve());
    });
  }

  get #over(): boolean {
    if (this.#state === "stopped") return true;
    return this.#state === "stopping" && this.#hands.size === 0 && this.#outcomes.length === 0;
  }

  async #loop(): Promise<void> {
    let failures = 0;
    let failingSince = 0;
    const fairness = new Fairness(this.#clock);
    while (!this.#over) {
      // Jobs that were taken ahead begin without the loop: what ends in one turn of the event loop is settled together. A storage in
      // this process would settle them one by one: measured on SQLite, that is half of the time of a job that does nothing.
      const turn = this.#hands.waiting > 0 ? fairness.turn() : fairness.step();
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
      if (!this.#sleep.signalled && !this.#over) await this.#sleep.pause(this.#outlook.nextAt - this.#clock.now());
    }
  }

  /**
   * Something that ended may be what the storage cannot take: it must not hold up the rest. Each is settled on its own;
   * what is refused while others are taken, or for as long as a lease, is given up, and comes back when its lease expires.
   */
  async #settleApart(expired: boolean): Promise<void> {
    const outcomes = this.#outcomes;
    this.#outcomes = [];
    const refused: Outcome[] = [];
    for (const outcome of outcomes) {
      await this.#ask(() => this.#storage.settle([outcome])).catch(() => refused.push(outcome));
    }
    if (!expired && refused.length === outcomes.length) this.#outcomes.unshift(...refused);
    else for (const { id } of refused) this.#report(new JobError(`how job ${id} ended could not be written`));
  }

  /** What the storage answers, unless it takes too long or the worker has stopped. */
  #ask<T>(ask: () => Promise<T>, late?: (answer: T) => void): Promise<T> {
    return inTime(this.#clock, ask, { late, signal: this.#ended.signal });
  }

  /** Settles what ended, claims what may start, starts it. */
  async #turn(): Promise<void> {
    this.#hands.check();
    const free = this.#state === "running" ? this.#hands.free : 0;
    const now = this.#clock.now();
    const lingers = this.#outlook.lingers(now);
    if (free === 0) this.#admission.use(0);
    // A batch is worth waiting for until all that could run has been asked for.
    const gathers = this.#settings.batch !== undefined && this.#admission.asking;
    const max = lingers || gathers ? 0 : Math.min(this.#size.jobs, this.#admission.ready(free));
    const ahead = Math.min(this.#size.jobs - max, this.#takesAhead(free));
    if (this.#outcomes.length === 0 && !this.#mayFindWork(free + ahead, max + ahead, now)) {
      // Another limit is in the way: what the limiter granted is not kept from others meanwhile.
      if (!this.#admission.asking) this.#admission.use(0);
      return;
    }
    const { settle, rest } = firstOf(latestOf(this.#outcomes));
    this.#outcomes = [...rest];
    if (rest.length > 0) this.#sleep.signal();
    if (free + ahead === 0) {
      await this.#settling(
        settle,
        () => this.#ask(() => this.#storage.settle(settle)),
        (lost) => lost,
      );
      this.#outlook.rest();
      return;
    }
    const request = {
      queue: this.#queue,
      worker: this.#id,
      max,
      ahead,
      maxBytes: this.#size.bytes,
      types: this.#handlers.types,
      leaseMs: this.#settings.lease,
      limits: this.#admission.limits,
      settle,
      grantTtlMs: this.#grantTtl,
    };
    this.#claiming = true;
    this.#cancelled.clear();
    this.#outlook.looks(now);
    const asked = markOf(this.#clock);
    const claim = await this.#confirmations.carriedBy((confirm) =>
      this.#settling(
        settle,
        () =>
          // An answer that comes after the deadline is too old to be started.
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
    this.#ahead = claim.jobs.length > max;
    // What the claim says about later counts from here: calling handlers takes its time.
    const answeredAt = this.#clock.now();
    this.#startAll(claim, asked, this.#admission.use(claim.jobs.length));
    this.#lookAhead(claim, { max: max + ahead, lingers, answeredAt });
  }

  /**
   * How many more to take than can run, if the storage gives any. Where all hands are busy that is worth a call only while the
   * storage gives some, and when half of what waited is begun.
   */
  #takesAhead(free: number): number {
    if (this.#state !== "running" || !this.#admission.open || !this.#settings.ahead) return 0;
    const wanted = this.#hands.ahead();
    const { waiting } = this.#hands;
    if (free === 0 && (!this.#ahead || 2 * waiting > wanted)) return 0;
    return Math.max(0, wanted - waiting);
  }

  /** Is there any use in asking the storage? */
  #mayFindWork(free: number, max: number, now: number): boolean {
    if (free === 0) {
      this.#outlook.rest();
      return false;
    }
    if (max > 0 || !this.#admission.asking) return this.#outlook.mayAsk(now);
    return this.#outlook.mayPeek(now, this.#idle.length > 0 && !this.#empty);
  }

  /** What could not be settled is settled the next time. Who waits in this process for a job that ended is told by `lostOf`. */
  async #settling<T>(
    settle: readonly Outcome[],
    step: () => Promise<T>,
    lostOf: (answer: T) => readonly string[],
  ): Promise<T> {
    const settled = settlingHere(this.#storage, settle);
    try {
      const answer = await step();
      settled?.(lostOf(answer));
      return answer;
    } catch (error) {
      settled?.(undefined);
      this.#outcomes.unshift(...settle);
      this.#claiming = false;
      this.#admission.use(0);
      this.#outlook.heardNews();
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
    // What is nearly over when it is heard of is not begun either: somebody else may begin it any moment.
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
    this.#hands.take(
      withTimeout === undefined ? jobs : jobs.map(withTimeout),
      { takenAt: now, leasedUntil, grants, starts },
      this.#cancelled,
    );
  }

  /** What the limiter granted was too old when a job had been claimed for it. If that is always so, nothing ever starts. */
  #metStale(): void {
    this.#stale += 1;
    if (this.#stale % TELL_STALE !== 0) return;
    this.#report(
      new JobError(
        `what the limiter granted was too old ${this.#stale} times in a row when jobs had been claimed for it: ` +
          "give it a longer `grantTtl`, or the storage less to do",
      ),
    );
  }

  /** Jobs were claimed, and their answer came when they could not be started any more. The next claim asks for less. */
  #metLate(jobs: readonly JobRecord[], tookMs: number, allowedMs: number): void {
    const bytes = jobs.reduce((sum, { data }) => sum + data.length, 0);
    const times = this.#size.late({ jobs: jobs.length, bytes });
    if (times !== TELL_LATE) return;
    this.#report(
      new JobError(
        `claims were answered too late ${times} times in a row, and their jobs given back: the latest took ` +
          `${Math.round(tookMs) / 1_000} s for ${jobs.length} jobs with ${bytes} bytes of data, and ${allowedMs / 1_000} s are ` +
          "allowed. The worker asks for less; if that does not help, bring it nearer to its storage, keep large data " +
          "elsewhere and pass a reference, or give it a longer `lease`",
      ),
    );
  }

  /** What the claim counted under limits that go by time. */
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

  /** None of its jobs was called, nor will be: the storage has nothing to wait for. */
  #giveBack({ jobs, grant }: Claim): void {
    if (grant !== undefined) this.#confirmations.add({ grant: grant.id, calledInMs: 0 }, grant.confirmInMs);
    const back = jobs.map((job) => givenBack(job));
    // After the last turn nothing else would hand it in.
    if (this.#state === "stopped" && back.length > 0) this.#safely(() => this.#storage.settle(back));
    else this.#outcomes.push(...back);
    this.#sleep.signal();
  }

  /** What to do next, by what the claim said. */
  #lookAhead(claim: Claim, { max, lingers, answeredAt }: Asked): void {
    const { jobs, more, nextInMs, blockedBy } = claim;
    const telling = this.#outlook.learn(claim, max, lingers, answeredAt);
    if (telling) this.#blocked(blockedBy!, nextInMs);
    if (more && !lingers) this.#admission.want();
    const empty = jobs.length === 0 && !more && nextInMs === null && blockedBy === null;
    if (empty && !this.#sleep.signalled && this.#hands.size === 0 && this.#outcomes.length === 0) this.#foundEmpty();
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

/** What was asked for, and when the answer came. */
interface Asked {
  readonly max: number;
  readonly lingers: boolean;
  readonly answeredAt: number;
}

/** One for each job: of a job that was lost and won again, what ended under the older lease is stale for certain. */
function latestOf(outcomes: readonly Outcome[]): readonly Outcome[] {
  if (outcomes.length < 2) return outcomes;
  const latest = new Map<string, Outcome>();
  for (const outcome of outcomes) {
    if ((latest.get(outcome.id)?.token ?? 0) < outcome.token) latest.set(outcome.id, outcome);
  }
  return latest.size === outcomes.length ? outcomes : [...latest.values()];
}

/** As many as are worth one step, by what they bring along: one at least. */
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
