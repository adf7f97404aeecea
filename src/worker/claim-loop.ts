import { markOf } from "../core/clock.ts";
import type { Claim, Outcome } from "../storage/job-storage.ts";
import { settlingHere } from "../storage/waiters.ts";
import { Fairness } from "./fairness.ts";
import type { WorkerParts } from "./parts.ts";
import { Starter } from "./starter.ts";
import { WakeUpTime } from "./wake-up-time.ts";

/** When the storage has failed for so long, jobs that ended are settled one by one. */
const SETTLE_APART_AFTER_MS = 1_000;
/** The wait between tries when the storage fails, doubled each time, up to the second number. */
const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 2_000;

/** A limiter in this process has granted a start after so many microtasks, if it can. */
const GRANTED_WITHIN = 100;

/** What the next call of the storage asks for. */
interface Plan {
  /** How many jobs could run at once. */
  readonly free: number;
  /** How many of them may start now. */
  readonly max: number;
  /** How many more to prefetch. */
  readonly prefetch: number;
  /** It only looks whether jobs wait: a batch is still being filled. */
  readonly lingers: boolean;
}

/**
 * The loop of a worker: claim, start, execute, settle, again. One claim at a time; jobs that ended while it was under way are
 * settled by the next one, in the same step. The loop sleeps when there is nothing to do, until it is woken up: by a job that
 * ended, by the storage, by the limiter, or at the wake-up time that the storage computed.
 */
export class ClaimLoop {
  readonly #parts: WorkerParts;
  readonly #starter: Starter;
  readonly #fairness: Fairness;
  readonly #wakeUpTime: WakeUpTime;
  /** Jobs that were cancelled while a claim was under way: the claim may answer with them. */
  readonly #cancelled = new Set<string>();
  #claiming = false;
  /** Jobs waited for a slot of this worker or of a limit when the latest claim was answered. */
  #asks = false;
  /** The latest claim got more jobs than could run: there may be more to prefetch. */
  #gotPrefetched = false;
  /** The storage answered the latest claim or settle before the event loop had its turn. */
  #answersAtOnce = false;

  constructor(parts: WorkerParts) {
    this.#parts = parts;
    this.#starter = new Starter(parts);
    this.#fairness = new Fairness(parts.settings.clock);
    this.#wakeUpTime = new WakeUpTime(parts.settings.batch?.linger ?? 0);
  }

  /** The storage notifies: jobs were added. `mayStart`: something may start that could not before. */
  wakeUp(mayStart: boolean): void {
    this.#parts.emitter.wokenUp();
    if (mayStart) this.#wakeUpTime.wakeUp();
    this.#parts.sleep.signal();
  }

  cancel(ids: readonly string[]): void {
    this.#parts.inFlight.cancel(new Set(ids));
    if (this.#claiming) for (const id of ids) this.#cancelled.add(id);
  }

  get #over(): boolean {
    const { isStopped, isRunning, inFlight, outcomes } = this.#parts;
    return isStopped() || (!isRunning() && inFlight.size === 0 && outcomes.size === 0);
  }

  /** Runs until the worker has stopped. */
  async run(): Promise<void> {
    const { isStopped, settings, sleep, outcomes, report } = this.#parts;
    const { clock, lease } = settings;
    let failures = 0;
    let failingSince = 0;
    while (!this.#over) {
      const turn = this.#eventLoopTurn();
      if (turn !== undefined) await turn;
      sleep.begin();
      try {
        await this.#step();
        failures = 0;
      } catch (error) {
        if (failures === 0) failingSince = clock.now();
        report(error);
        failures += 1;
        const forMs = clock.now() - failingSince;
        if (forMs >= SETTLE_APART_AFTER_MS) await outcomes.settleApart(forMs >= lease);
        await sleep.rest(retryIn(failures), isStopped);
        continue;
      }
      if (!sleep.signalled && !this.#over) await sleep.pause(this.#wakeUpTime.nextAt - clock.now());
    }
  }

  /**
   * Prefetched jobs start without this loop: jobs that end in one turn of the event loop are settled together. A storage in this
   * process would settle them one by one: measured on SQLite, that is half of the time of a job that does nothing.
   * A storage over a network gathers them itself, while it answers.
   */
  #eventLoopTurn(): Promise<void> | undefined {
    const gathers = this.#answersAtOnce && this.#parts.inFlight.prefetched > 0;
    return gathers ? this.#fairness.turn() : this.#fairness.step();
  }

  /** Settles jobs that ended, claims jobs that may start, and starts them. */
  async #step(): Promise<void> {
    const { settings, outcomes, sleep, admission, inFlight, emitter } = this.#parts;
    const { clock } = settings;
    inFlight.check();
    if (outcomes.size > 0 && this.#asks && !admission.asking && admission.ready(1) === 0) {
      // With a grant, settle and claim are one step. Between two, slots would be free for a moment that is too short for others: they are
      // woken up in vain, and no claim of this worker would say that they wait.
      admission.want();
      for (let i = 0; i < GRANTED_WITHIN && admission.asking; i++) await Promise.resolve();
      sleep.begin();
    }
    const now = clock.now();
    const plan = this.#plan(now);
    if (outcomes.size === 0 && !this.#mayFindWork(plan, now)) {
      // Another limit blocks: grants of the limiter are given back, so that other callers can have them.
      if (!admission.asking) admission.use(0);
      return;
    }
    const settle = outcomes.take();
    if (outcomes.size > 0) sleep.signal();
    const most = this.#wakeUpTime.mostAfter(settle, now);
    if (plan.free + plan.prefetch === 0) return this.#settleOnly(settle);
    if (most === 0) {
      // A claim in the same step would take the slots again that are released, and those that wait would never have one.
      await this.#settleOnly(settle);
      this.#wakeUpTime.handedOver(clock.now());
      return;
    }
    this.#wakeUpTime.claims(now);
    const asked = markOf(clock);
    const claim = await this.#claim({ ...plan, max: Math.min(plan.max, most) }, settle);
    // `nextInMs` counts from here: calling handlers takes time.
    const answeredAt = clock.now();
    const grants = admission.use(claim.jobs.length);
    if (claim.jobs.length > 0) {
      emitter.jobsFound();
      this.#starter.start(claim, asked, grants, this.#cancelled);
    }
    this.#planNext(claim, plan, answeredAt);
  }

  #plan(now: number): Plan {
    const { isRunning, settings, admission, inFlight } = this.#parts;
    const { jobs: most } = this.#starter.size;
    const free = isRunning() ? inFlight.free : 0;
    const lingers = this.#wakeUpTime.lingers(now);
    if (free === 0) admission.use(0);
    // A batch waits until the limiter has answered for all jobs that could run.
    const gathers = settings.batch !== undefined && admission.asking;
    const max = lingers || gathers ? 0 : Math.min(most, admission.ready(free));
    return { free, max, prefetch: Math.min(most - max, this.#prefetchCount(free)), lingers };
  }

  /**
   * How many more jobs to claim than can run. While all slots are in use, a claim is worth its round trip only if the latest one got
   * prefetched jobs, and half of these have started.
   */
  #prefetchCount(free: number): number {
    const { isRunning, admission, settings, inFlight } = this.#parts;
    if (!isRunning() || !admission.open || !settings.prefetch) return 0;
    const wanted = inFlight.prefetchSize();
    const { prefetched } = inFlight;
    if (free === 0 && (!this.#gotPrefetched || 2 * prefetched > wanted)) return 0;
    return Math.max(0, wanted - prefetched);
  }

  /** Could a claim get anything? */
  #mayFindWork({ free, max, prefetch }: Plan, now: number): boolean {
    if (free + prefetch === 0) {
      this.#wakeUpTime.rest();
      return false;
    }
    if (max + prefetch > 0 || !this.#parts.admission.asking) return this.#wakeUpTime.mayClaim(now);
    return this.#wakeUpTime.mayPeek(now, this.#parts.emitter.idleIsAwaited);
  }

  async #settleOnly(settle: readonly Outcome[]): Promise<void> {
    const { ask, settings } = this.#parts;
    await this.#settling(
      settle,
      () => ask(() => settings.storage.settle(settle)),
      (lost) => lost,
    );
    this.#wakeUpTime.rest();
  }

  async #claim({ max, prefetch }: Plan, settle: readonly Outcome[]): Promise<Claim> {
    const { queue, id, types, settings, admission, ask } = this.#parts;
    const { size, grantTtlMs } = this.#starter;
    const request = {
      queue,
      worker: id,
      max,
      prefetch,
      maxBytes: size.bytes,
      types,
      leaseMs: settings.lease,
      limits: admission.limits,
      settle,
      grantTtlMs,
    };
    this.#claiming = true;
    this.#cancelled.clear();
    const claim = await this.#parts.confirmations.carriedBy((confirm) =>
      this.#settling(
        settle,
        () =>
          // Jobs of an answer that comes after the deadline are too old to start.
          ask(
            () => settings.storage.claim({ ...request, confirm }),
            (late) => this.#starter.giveBack(late),
          ).catch((error: unknown) => {
            size.failed();
            throw error;
          }),
        ({ stale }) => stale,
      ),
    );
    this.#claiming = false;
    this.#gotPrefetched = claim.jobs.length > max;
    return claim;
  }

  /**
   * A step that settles these outcomes, besides what else it does. Waiters of this process are resolved for all jobs but those of
   * `lostOf`, whose lease was lost.
   */
  async #settling<T>(
    settle: readonly Outcome[],
    step: () => Promise<T>,
    lostOf: (answer: T) => readonly string[],
  ): Promise<T> {
    const settled = settlingHere(this.#parts.settings.storage, settle);
    try {
      const { turns } = this.#fairness;
      const answer = await step();
      this.#answersAtOnce = turns === this.#fairness.turns;
      settled?.(lostOf(answer));
      return answer;
    } catch (error) {
      settled?.(undefined);
      this.#parts.outcomes.putBack(settle);
      this.#claiming = false;
      this.#parts.admission.use(0);
      this.#wakeUpTime.wakeUp();
      throw error;
    }
  }

  /** Decides what to do next, by the answer to the claim. */
  #planNext(claim: Claim, { max, prefetch, lingers }: Plan, answeredAt: number): void {
    const { emitter, admission, sleep, inFlight, outcomes } = this.#parts;
    const { jobs, more, nextInMs, blockedBy } = claim;
    this.#asks = this.#wakeUpTime.answered(claim, max + prefetch, lingers, answeredAt);
    emitter.answered(claim, answeredAt);
    if (this.#asks && (more || max === 0)) admission.want();
    const empty = jobs.length === 0 && !more && nextInMs === null && blockedBy === null;
    if (empty && !sleep.signalled && inFlight.size === 0 && outcomes.size === 0) emitter.foundEmpty();
  }
}

/** How long to wait after so many failures in a row. */
export function retryIn(failures: number): number {
  return Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** failures);
}
