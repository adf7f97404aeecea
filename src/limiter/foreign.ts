import { type Clock, systemClock } from "../core/clock.ts";
import { WakeUps } from "../limits/wake-ups.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { ILimiter, Limiter, Permit } from "./limiter.ts";
import { type CheckedPart, Lock, type RemoteAnswer, type RemotePart } from "./part.ts";
import type { AnyPart } from "./taking.ts";

/** The parts of the built-in limiter that the user's own one extends. Default: it extends none. */
type Beneath = () => readonly AnyPart[];
const NOTHING: Beneath = () => [];

/** What parts that come from elsewhere have in common: their capacity is unknown. */
export abstract class ForeignPart {
  readonly name: string;
  readonly clock: Clock;
  readonly capacity = Number.POSITIVE_INFINITY;
  readonly counts = "weight";
  readonly wakeUps = new WakeUps();
  readonly ledger: object;
  readonly beneath: Beneath;

  constructor(limiter: ILimiter, beneath: Beneath = NOTHING) {
    this.ledger = limiter;
    this.beneath = beneath;
    // Its dates are told by the clock of the limiter that it extends.
    this.clock = beneath()[0]?.clock ?? systemClock;
    this.name = limiter.constructor?.name ?? "limiter";
  }
}

/** A user's own limiter with the six methods: asked, then told; exact for one caller at a time, which the lock makes sure of. */
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

  async tell(): Promise<void> {
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

/** A limiter that is not ours but checks and takes in one step, and can undo. */
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
    // "At once" would be asked at once, and again: whoever says so is asked after a moment.
    return { wait: answer.retryInMs === null ? WHEN_RELEASED : Math.max(answer.retryInMs, 1) };
  }

  /** It alone knows what it counts, and from when. */
  isLate(): boolean {
    return false;
  }
  called(): void {}

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
