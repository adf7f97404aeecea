import { type Clock, dateIn, markOf, mostSince } from "../core/clock.ts";
import { JobError } from "../core/errors.ts";
import type { ILimiter, Limiter, Permit } from "../limiter/limiter.ts";
import { callPermit, isPermitLate, toBeCalled } from "../limiter/line-limiter.ts";
import { partsOf, takesAtOnce } from "../limiter/parts.ts";
import type { CheckedPart } from "../limiter/part.ts";
import { WindowLimiter } from "../limiter/window-limiter.ts";
import type { WakeUps } from "../limits/wake-ups.ts";
import { WHEN_RELEASED } from "../limits/wait.ts";
import type { ClaimLimit } from "../storage/job-storage.ts";
import { inBackground, type ReportError } from "./ask.ts";
import type { WindowLimit } from "./options.ts";

/** A limiter that does not say when the next start is available is asked again, ever less often. */
const FIRST_POLL_MS = 1;
const SLOW_POLL_MS = 100;
/** How long grants are gathered for one claim. */
const GATHER_MS = 50;
/** A limiter that failed is asked again after this. */
const FAILED_MS = 1_000;
/** How long the answer of a limiter with only six methods holds. */
const CHECKED_TTL_MS = 2_000;

/** What a limiter granted for one start. */
export interface LimiterGrant {
  /** Was it granted too long ago to be used? */
  readonly late: boolean;
  /** A job was claimed for it and is about to start. */
  start(): Promise<void> | void;
  /** Its handler has just been called: windows count from here. */
  called(): void;
  /** No handler is called for it: as if it had never been granted. */
  cancel(): Promise<void> | void;
  /** The work ended. */
  release(): Promise<void> | void;
}

/** The worker, as its admission sees it. */
export interface Applicant {
  readonly clock: Clock;
  /** How many more jobs could run. */
  free(): number;
  /** The fewest grants to ask for at once, even if fewer jobs may wait: the size of a batch, or one. */
  readonly atLeast: number;
  /** The limiter granted some starts. */
  granted(): void;
  /** Jobs wait, and the limiter refuses them. */
  blocked(blockedBy: string, retryInMs: number | null): void;
  readonly failed: ReportError;
}

/**
 * Decides how many jobs a worker may claim, by its limiter. The limiter is asked only when jobs wait, jobs are claimed only after it
 * granted their starts, and a grant for which no job was claimed is given back.
 */
export interface Admission {
  /** Limits that the claim itself charges. */
  readonly limits: readonly ClaimLimit[];
  /** There is no limiter, and the claim has no limits of its own. */
  readonly open: boolean;
  /** How many of `free` may be claimed now. */
  ready(free: number): number;
  /** Jobs wait: asks the limiter for as many as could run. */
  want(): void;
  /** Is the limiter being asked? Then jobs wait, and no claim is needed to find out. */
  readonly asking: boolean;
  /** Returns one grant for each of `jobs` jobs, and gives back the rest. */
  use(jobs: number): readonly LimiterGrant[];
  /** Nothing starts for `ms`. */
  hold(ms: number): Promise<void>;
  /** In how many milliseconds one more job could start. */
  nextIn(): Promise<number>;
  stop(): void;
}

/** The admission of a worker with this limiter. */
export function admissionFor(
  limiter: ILimiter | WindowLimit | undefined,
  queue: string,
  worker: string,
  applicant: Applicant,
): Admission {
  if (limiter === undefined) return new OpenAdmission([]);
  if (!("windowMs" in limiter)) return new LimiterAdmission(limiter, applicant);
  const { max, windowMs, scope } = limiter;
  if (scope === "queue") return new OpenAdmission([{ key: queueLimitKey(queue), max, windowMs }]);
  return new LimiterAdmission(new WindowLimiter(max, windowMs, worker, applicant.clock), applicant);
}

/** The name under which the starts of a queue are counted for `{ max, duration }`. */
export function queueLimitKey(queue: string): string {
  return `queue:${queue}`;
}

/** No limiter, or limits that the storage charges together with the claim. */
class OpenAdmission implements Admission {
  readonly limits: readonly ClaimLimit[];
  readonly open: boolean;
  readonly asking = false;

  constructor(limits: readonly ClaimLimit[]) {
    this.limits = limits;
    this.open = limits.length === 0;
  }

  ready(free: number): number {
    return free;
  }
  want(): void {}
  use(): readonly LimiterGrant[] {
    return [];
  }
  async hold(): Promise<void> {}
  async nextIn(): Promise<number> {
    return 0;
  }
  stop(): void {}
}

/** A limiter in this process, built-in or the user's own. */
class LimiterAdmission implements Admission {
  readonly limits: readonly ClaimLimit[] = [];
  readonly open = false;
  readonly #limiter: ILimiter;
  readonly #applicant: Applicant;
  readonly #stop = new AbortController();
  #grants: LimiterGrant[] = [];
  #asking = false;
  /** `want` was called while the limiter was being asked. */
  #wanted = false;
  /**
   * How many grants to ask for at once: twice as many as there were jobs for the last time. A grant that is not used costs two calls of
   * a shared limiter, and other callers are refused for it meanwhile.
   */
  #atOnce: number;

  constructor(limiter: ILimiter, applicant: Applicant) {
    this.#limiter = limiter;
    this.#applicant = applicant;
    this.#atOnce = applicant.atLeast;
  }

  get asking(): boolean {
    return this.#asking;
  }

  ready(free: number): number {
    return Math.min(free, this.#grants.length);
  }

  want(): void {
    if (this.#asking) {
      this.#wanted = true;
      return;
    }
    if (this.#stop.signal.aborted || !this.#lacks) return;
    this.#asking = true;
    this.#wanted = false;
    void this.#askUntilAnswered();
  }

  /** Could more jobs run than there are grants? */
  get #lacks(): boolean {
    return this.#grants.length < Math.min(this.#applicant.free(), this.#atOnce);
  }

  use(jobs: number): readonly LimiterGrant[] {
    if (this.#grants.length > 0) this.#atOnce = Math.max(this.#applicant.atLeast, 2 * jobs);
    const used = this.#grants.splice(0, jobs);
    for (const grant of this.#grants.splice(0)) inBackground(() => grant.cancel(), this.#applicant.failed);
    return used;
  }

  async hold(ms: number): Promise<void> {
    await this.#limiter.setNextAvailableTime(dateIn(this.#applicant.clock, ms + 1));
  }

  async nextIn(): Promise<number> {
    const next = await this.#limiter.getNextAvailableTime();
    const ms = next.getTime() - this.#applicant.clock.wall();
    return ms > 0 ? ms : 0;
  }

  stop(): void {
    this.#stop.abort();
    if (!this.#asking) this.use(0);
  }

  /** Never rejects: a limiter that fails is asked again after a while. */
  async #askUntilAnswered(): Promise<void> {
    const { signal } = this.#stop;
    try {
      await this.#ask();
    } catch (error) {
      if (!signal.aborted) {
        this.#applicant.failed(error);
        await this.#sleep(FAILED_MS);
      }
    }
    this.#asking = false;
    if (signal.aborted) this.use(0);
    else if (this.#grants.length === 0 && this.#wanted && this.#lacks) this.want();
    else this.#applicant.granted();
  }

  async #ask(): Promise<void> {
    const limiter = takesAtOnce(this.#limiter);
    if (limiter === undefined) this.#grants.push(await this.#askChecked(this.#limiter));
    else {
      // The first grant must not become too old while more are asked for.
      let until = Number.POSITIVE_INFINITY;
      for (let first = true; this.#lacks && this.#applicant.clock.now() < until; first = false) {
        if (!(await this.#take(limiter, first))) break;
        if (first) until = this.#applicant.clock.now() + GATHER_MS;
      }
    }
  }

  /** Takes one grant; `wait`: waits for it if the limiter refuses. */
  async #take(limiter: Limiter, wait: boolean): Promise<boolean> {
    const answer = await limiter.tryAcquire(toBeCalled({}));
    if (answer.granted) return this.#keep(answer);
    if (answer.never)
      throw new JobError(
        `the limiter ${answer.blockedBy} can never grant a start: its maximum is below the weight of a job`,
      );
    if (!wait) return false;
    this.#applicant.blocked(answer.blockedBy, answer.retryInMs);
    return this.#keep(await limiter.acquire(toBeCalled({ signal: this.#stop.signal })));
  }

  #keep(permit: Permit): true {
    this.#grants.push({
      get late() {
        return isPermitLate(permit);
      },
      start() {},
      called: () => callPermit(permit),
      cancel: () => permit.cancel(),
      release: () => permit.release(),
    });
    return true;
  }

  /**
   * A limiter with only the six methods of `ILimiter` cannot take a start back: it is asked first, then a job is claimed, and only then
   * the start is recorded. A lock keeps other callers in this process from asking it meanwhile.
   */
  async #askChecked(limiter: ILimiter): Promise<LimiterGrant> {
    const part = partsOf(limiter)[0] as CheckedPart;
    const { clock } = this.#applicant;
    let pollMs = FIRST_POLL_MS;
    for (let first = true; ; first = false) {
      const unlock = await part.lock.take();
      try {
        const { times } = part.wakeUps;
        const asked = markOf(clock);
        this.#stop.signal.throwIfAborted();
        const wait = await part.ask(1, clock);
        const isLate = () => mostSince(clock, asked) > CHECKED_TTL_MS;
        if (wait === 0) return checkedGrant(part, isLate, unlock);
        if (first) this.#applicant.blocked(part.name, wait === WHEN_RELEASED ? null : wait);
        unlock();
        if (part.wakeUps.times === times) await this.#sleep(wait === WHEN_RELEASED ? pollMs : wait, part.wakeUps);
        pollMs = Math.min(2 * pollMs, SLOW_POLL_MS);
      } catch (error) {
        unlock();
        throw error;
      }
    }
  }

  /** Sleeps until a wake-up, for at most `ms`, or until the admission is stopped. */
  #sleep(ms: number, wakeUps?: WakeUps): Promise<void> {
    const { signal } = this.#stop;
    return new Promise((resolve) => {
      const end = () => {
        cancelTimer();
        stopListening?.();
        signal.removeEventListener("abort", end);
        resolve();
      };
      const cancelTimer = this.#applicant.clock.after(ms, end);
      const stopListening = wakeUps?.listen(end);
      signal.addEventListener("abort", end, { once: true });
    });
  }
}

function checkedGrant(part: CheckedPart, isLate: () => boolean, unlock: () => void): LimiterGrant {
  let recorded = false;
  const grant: LimiterGrant = {
    get late() {
      return !recorded && isLate();
    },
    async start() {
      try {
        await part.recordStart();
        recorded = true;
      } finally {
        unlock();
      }
    },
    called() {},
    // A recorded start cannot be taken back: it is recorded as completed.
    cancel: () => (recorded ? grant.release() : unlock()),
    async release() {
      await part.release(undefined, 1);
      part.wakeUps.notify();
    },
  };
  return grant;
}
