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
import type { WindowLimit } from "./options.ts";

/** What a limiter gave for one start. */
export interface Grant {
  /** Was it granted too long ago to be used? */
  readonly late: boolean;
  /** A job was claimed for it and is about to start. */
  start(): Promise<void> | void;
  /** Its handler has just been called: windows count from here. */
  called(): void;
  /** No handler is called for it: as if it had never been given. */
  cancel(): Promise<void> | void;
  /** The work ended. */
  release(): Promise<void> | void;
}

/** Who waits for leave to start something. */
export interface Applicant {
  readonly clock: Clock;
  /** How many more jobs could run. */
  free(): number;
  /** So many are worth asking for at once, though it is not known that there are as many jobs: the size of a batch, or one. */
  readonly atLeast: number;
  /** Some leave was granted. */
  granted(): void;
  /** There is work, and it may not start. */
  blocked(blockedBy: string, retryInMs: number | null): void;
  failed(error: unknown): void;
}

/**
 * What stands between a worker and its next claim. Nothing is asked of a limiter before there is work for it, and nothing
 * is claimed before the limiter has said yes; what no job was found for is given back.
 */
export interface Admission {
  /** Limits that the claim takes from by itself. */
  readonly limits: readonly ClaimLimit[];
  /** Nothing stands in the way, and no limit comes along with the claim. */
  readonly open: boolean;
  /** How many of `free` may be claimed now. */
  ready(free: number): number;
  /** There is work: leave is asked for, for as many as could run. */
  want(): void;
  /** Is leave being asked for? Then there is work, and no need to look. */
  readonly asking: boolean;
  /** Takes one grant for each of so many jobs, and gives back the rest. */
  use(jobs: number): readonly Grant[];
  /** Nothing starts for so long. */
  hold(ms: number): Promise<void>;
  /** When one more could start, from now. */
  nextIn(): Promise<number>;
  stop(): void;
}

/** What stands before the claims of a worker with this limiter. */
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

/** No limiter, or limits that the storage takes together with the jobs. */
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
  use(): readonly Grant[] {
    return [];
  }
  async hold(): Promise<void> {}
  async nextIn(): Promise<number> {
    return 0;
  }
  stop(): void {}
}

/** Somebody's limiter, ours or the user's own. */
class LimiterAdmission implements Admission {
  readonly limits: readonly ClaimLimit[] = [];
  readonly open = false;
  readonly #limiter: ILimiter;
  readonly #applicant: Applicant;
  readonly #stop = new AbortController();
  #grants: Grant[] = [];
  #asking = false;
  /** More work was seen meanwhile. */
  #wanted = false;
  /**
   * So many are asked for at once: twice as many as there were jobs for the last time. What is asked for and not used costs two
   * calls where the limiter is elsewhere, and others are refused for it meanwhile.
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

  /** Could more run than there is leave for? */
  get #lacks(): boolean {
    return this.#grants.length < Math.min(this.#applicant.free(), this.#atOnce);
  }

  use(jobs: number): readonly Grant[] {
    if (this.#grants.length > 0) this.#atOnce = Math.max(this.#applicant.atLeast, 2 * jobs);
    const used = this.#grants.splice(0, jobs);
    for (const grant of this.#grants.splice(0)) this.#safely(() => grant.cancel());
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
      // What was granted first must not grow old while more is asked for.
      let until = Number.POSITIVE_INFINITY;
      for (let first = true; this.#lacks && this.#applicant.clock.now() < until; first = false) {
        if (!(await this.#take(limiter, first))) break;
        if (first) until = this.#applicant.clock.now() + GATHER_MS;
      }
    }
  }

  /** Takes one; the first is worth waiting for. */
  async #take(limiter: Limiter, wait: boolean): Promise<boolean> {
    const answer = await limiter.tryAcquire(toBeCalled({}));
    if (answer.granted) return this.#keep(answer);
    if (answer.never) throw new JobError(`the limiter ${answer.blockedBy} says that it will never let a job start`);
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
   * A limiter with six methods can be asked and told, and nothing taken back: it is asked, then a job is claimed, and
   * only then it is told. Until then nobody else in this process asks it.
   */
  async #askChecked(limiter: ILimiter): Promise<Grant> {
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
        if (wait === 0) return checkedGrant(limiter, part, isLate, unlock);
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

  /** Until there is room, for so long at most, or until it is stopped. */
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

  #safely(step: () => Promise<void> | void): void {
    (async () => step())().catch((error: unknown) => this.#applicant.failed(error));
  }
}

/** A limiter that cannot tell when it has room is asked again, ever less often. */
const FIRST_POLL_MS = 1;
const SLOW_POLL_MS = 100;
/** So long leave is gathered for one claim. */
const GATHER_MS = 50;
/** And one that fails, after this. */
const FAILED_MS = 1_000;

/** What a limiter with six methods said holds for so long. */
const CHECKED_TTL_MS = 2_000;

function checkedGrant(limiter: ILimiter, part: CheckedPart, isLate: () => boolean, unlock: () => void): Grant {
  let told = false;
  const grant: Grant = {
    get late() {
      return !told && isLate();
    },
    async start() {
      try {
        await limiter.recordJobStart();
        told = true;
      } finally {
        unlock();
      }
    },
    called() {},
    // What it was told cannot be taken back: it has ended.
    cancel: () => (told ? grant.release() : unlock()),
    async release() {
      await limiter.recordJobCompletion();
      part.wakeUps.notify();
    },
  };
  return grant;
}
