import { type Clock, systemClock } from "../core/clock.ts";
import { WakeUps } from "../limits/wake-ups.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { ILimiter, Limiter, Permit } from "./limiter.ts";
import { type CheckedPart, Lock, type RemoteAnswer, type RemotePart } from "./part.ts";
import type { LimiterPart } from "./charging.ts";

/** The parts of the built-in limiter that the user's limiter extends. Default: it extends none. */
type Beneath = () => readonly LimiterPart[];
const NOTHING: Beneath = () => [];

/** The common part of limiters written by users: their capacity is unknown. */
export abstract class ForeignPart {
  readonly name: string;
  readonly clock: Clock;
  readonly capacity = Number.POSITIVE_INFINITY;
  readonly counts = "weight";
  readonly wakeUps = new WakeUps();
  readonly state: object;
  readonly beneath: Beneath;

  constructor(limiter: ILimiter, beneath: Beneath = NOTHING) {
    this.state = limiter;
    this.beneath = beneath;
    // Its dates go by the clock of the limiter that it extends.
    this.clock = beneath()[0]?.clock ?? systemClock;
    this.name = limiter.constructor?.name ?? "limiter";
  }
}

/** A user's limiter with the six methods: checked, then recorded; exact for one caller at a time, which the lock ensures. */
export class SixMethodPart extends ForeignPart implements CheckedPart {
  readonly kind = "checked";
  readonly lock = new Lock();
  readonly #limiter: ILimiter;

  constructor(limiter: ILimiter, beneath?: Beneath) {
    super(limiter, beneath);
    this.#limiter = limiter;
  }

  async ask(_weight: number, clock: Clock): Promise<Wait> {
    if (await this.#limiter.canProceed()) return 0;
    const wait = (await this.#limiter.getNextAvailableTime()).getTime() - clock.wall();
    return wait > 0 ? wait : WHEN_RELEASED;
  }

  async recordStart(): Promise<void> {
    await this.#limiter.recordJobStart();
  }

  async release(): Promise<void> {
    await this.#limiter.recordJobCompletion();
  }

  cancel(): Promise<void> {
    return this.release();
  }

  settle(): void {}
}

/** A user's limiter that checks and charges in one step, and can undo. */
export class OwnLimiterPart extends ForeignPart implements RemotePart {
  readonly kind = "remote";
  readonly grantTtl = Number.POSITIVE_INFINITY;
  readonly #limiter: Limiter;

  constructor(limiter: Limiter, beneath?: Beneath) {
    super(limiter, beneath);
    this.#limiter = limiter;
  }

  async tryTake(weight: number): Promise<RemoteAnswer> {
    if (weight === 0) return { wait: 0, token: undefined };
    const answer = await this.#limiter.tryAcquire({ weight });
    if (answer.granted) return { wait: 0, token: answer };
    if (answer.never) return { wait: NEVER };
    // A retry time of 0 would cause a busy loop, so it is raised to 1 ms.
    return { wait: answer.retryInMs === null ? WHEN_RELEASED : Math.max(answer.retryInMs, 1) };
  }

  /** The limiter itself decides what it counts, and from when. */
  isLate(): boolean {
    return false;
  }

  async release(token: Permit): Promise<void> {
    await token.release();
  }

  async cancel(token: Permit): Promise<void> {
    await token.cancel();
  }

  async settle(token: Permit, used: number): Promise<void> {
    await token.settle(used);
  }
}
