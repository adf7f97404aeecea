import { type Clock, type Mark, markOf, mostSince } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { labelOf } from "../../limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../limits/wait.ts";
import { confirmationsOf } from "../../storage/confirmations.ts";
import type { Grant } from "../../storage/grants.ts";
import type { LimitGiven, LimitStorage, LimitTaken } from "../../storage/limit-storage.ts";
import type { RemoteAnswer, RemotePart } from "../part.ts";
import type { LimitTarget } from "./limit-target.ts";
import { type LimitWakeUps, limitWakeUpsOf, type SharedLimitStorage } from "./limit-wake-ups.ts";
import { Renewals } from "./renewals.ts";

/** The checked settings of a `SharedLimiter`. */
export interface SharedSettings {
  readonly target: LimitTarget;
  readonly ttlMs: number;
  readonly grantTtl: number;
  readonly clock: Clock;
}

/** The charge of a start under a shared limit. */
interface SharedCharge {
  readonly token: string;
  /** It has slots, which return when the work ends. */
  readonly held: boolean;
  /** What is to be confirmed, and since when it may be called. */
  readonly grant: Grant | undefined;
  readonly asked: Mark;
}

/** A limit that the storage keeps: charged by one atomic call, with the same decision as claims of workers. */
export class SharedPart implements RemotePart {
  readonly kind = "remote";
  readonly counts = "weight";
  /** The rule may change at any time, so only the storage knows. */
  readonly capacity = Number.POSITIVE_INFINITY;
  readonly lookAgainMs = 1_000;
  readonly clock: Clock;
  readonly grantTtl: number;
  readonly wakeUps: LimitWakeUps;
  readonly #storage: SharedLimitStorage;
  readonly #settings: SharedSettings;
  readonly #renewals: Renewals;

  constructor(storage: SharedLimitStorage, settings: SharedSettings) {
    const { target, clock, grantTtl, ttlMs } = settings;
    this.clock = clock;
    this.grantTtl = grantTtl;
    this.wakeUps = limitWakeUpsOf(storage, target.id, clock);
    this.#storage = storage;
    this.#settings = settings;
    this.#renewals = new Renewals(storage.limits, clock, ttlMs);
  }

  get name(): string {
    const { limit, value } = this.#settings.target;
    return labelOf(limit, value);
  }

  /** Is it one of these limits? */
  isOf(limits: LimitStorage): boolean {
    return this.#storage.limits === limits;
  }

  /** Limiters of one limit, group and keys record the same starts. */
  get state(): object {
    return this.wakeUps;
  }

  async tryTake(weight: number, given: boolean): Promise<RemoteAnswer> {
    // Another part of this composite charges the same limit for both.
    if (weight === 0) return { wait: 0, token: undefined };
    const { target, ttlMs, grantTtl: grantTtlMs } = this.#settings;
    const request = { weight: given ? weight : null, ttlMs, grantTtlMs };
    const asked = markOf(this.clock);
    const taken = await inTime(this.clock, () => target.take(this.#storage.limits, request), {
      late: (answer) => this.#cancelLate(answer),
      who: `the storage of "${this.name}"`,
    });
    if (taken.granted) {
      this.wakeUps.granted();
      if (taken.held) this.#renewals.begin(taken.token);
      const { token, held, grant } = taken;
      return { wait: 0, token: { token, held, grant, asked } satisfies SharedCharge };
    }
    if (taken.most !== null) return { wait: NEVER, most: taken.most };
    // A retry time of 0 would cause a busy loop, so it is raised to 1 ms.
    return { wait: taken.retryInMs === null ? WHEN_RELEASED : Math.max(taken.retryInMs, 1) };
  }

  isLate({ asked }: SharedCharge): boolean {
    return mostSince(this.clock, asked) > this.grantTtl;
  }

  called({ grant, asked }: SharedCharge): void {
    if (grant === undefined) return;
    const confirmation = { grant: grant.id, calledInMs: mostSince(this.clock, asked) };
    confirmationsOf(this.#storage, this.clock).add(confirmation, grant.confirmInMs);
  }

  release({ token, held }: SharedCharge): Promise<void> | void {
    if (!held) return;
    this.#renewals.end(token);
    return this.#give(token, "released");
  }

  cancel({ token }: SharedCharge): Promise<void> {
    this.#renewals.end(token);
    return this.#give(token, "cancelled");
  }

  settle({ token }: SharedCharge, used: number): Promise<void> {
    return this.#give(token, { used });
  }

  #give(token: string, given: LimitGiven): Promise<void> {
    return inTime(this.clock, () => this.#storage.limits.give(token, given), { who: `the storage of "${this.name}"` });
  }

  /** The caller does not wait for it any more. */
  #cancelLate(answer: LimitTaken): void {
    if (answer.granted) this.#give(answer.token, "cancelled").catch(() => {});
  }
}
