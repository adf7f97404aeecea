import { type Clock, type Mark, markOf, mostSince } from "../../core/clock.ts";
import { inTime } from "../../core/deadline.ts";
import { labelOf } from "../../limits/rule.ts";
import { NEVER, WHEN_RELEASED } from "../../limits/wait.ts";
import { confirmationsOf } from "../../storage/confirmations.ts";
import type { Grant } from "../../storage/grants.ts";
import type { LimitGiven, LimitStorage, LimitTaken } from "../../storage/limit-storage.ts";
import type { RemoteAnswer, RemotePart } from "../part.ts";
import { type Place, placeOf, type SharedLimitStorage } from "./place.ts";
import { Renewals } from "./renewals.ts";

/** What a `SharedLimiter` was told, checked. */
export interface SharedSettings {
  readonly limit: string;
  readonly group: string | null;
  readonly ttlMs: number;
  readonly grantTtl: number;
  readonly clock: Clock;
}

/** What was taken of a shared limit. */
interface Taken {
  readonly token: string;
  /** Something comes back when the work ends. */
  readonly held: boolean;
  /** What is to be confirmed, and since when it may be called. */
  readonly grant: Grant | undefined;
  readonly asked: Mark;
}

/** A limit that the storage keeps: taken by one atomic call, that of the claims of workers. */
export class SharedPart implements RemotePart {
  readonly kind = "remote";
  readonly counts = "weight";
  /** The rule may change at any time: only the storage can tell. */
  readonly capacity = Number.POSITIVE_INFINITY;
  readonly lookAgainMs = 1_000;
  readonly name: string;
  readonly clock: Clock;
  readonly grantTtl: number;
  readonly wakeUps: Place;
  readonly #storage: SharedLimitStorage;
  readonly #settings: SharedSettings;
  readonly #renewals: Renewals;

  constructor(storage: SharedLimitStorage, settings: SharedSettings) {
    const { limit, group, clock, grantTtl, ttlMs } = settings;
    this.name = labelOf(limit, group);
    this.clock = clock;
    this.grantTtl = grantTtl;
    this.wakeUps = placeOf(storage, limit, group, clock);
    this.#storage = storage;
    this.#settings = settings;
    this.#renewals = new Renewals(storage.limits, clock, ttlMs);
  }

  /** Is it one of these limits? */
  isOf(limits: LimitStorage): boolean {
    return this.#storage.limits === limits;
  }

  /** Limiters of one limit and group write the same starts. */
  get ledger(): object {
    return this.wakeUps;
  }

  async tryTake(weight: number, said: boolean): Promise<RemoteAnswer> {
    // Somebody else in this composite takes of the same limit for both.
    if (weight === 0) return { wait: 0, token: undefined };
    const { limit, group, ttlMs, grantTtl: grantTtlMs } = this.#settings;
    const request = { name: limit, group, weight: said ? weight : null, ttlMs, grantTtlMs };
    const asked = markOf(this.clock);
    const taken = await inTime(this.clock, () => this.#storage.limits.take(request), {
      late: (answer) => this.#cancelLate(answer),
      who: `the storage of "${this.name}"`,
    });
    if (taken.granted) {
      this.wakeUps.granted();
      if (taken.held) this.#renewals.begin(taken.token);
      const { token, held, grant } = taken;
      return { wait: 0, token: { token, held, grant, asked } satisfies Taken };
    }
    if (taken.most !== null) return { wait: NEVER, most: taken.most };
    // "At once" would be asked at once, and again: whoever says so is asked after a moment.
    return { wait: taken.retryInMs === null ? WHEN_RELEASED : Math.max(taken.retryInMs, 1) };
  }

  isLate({ asked }: Taken): boolean {
    return mostSince(this.clock, asked) > this.grantTtl;
  }

  called({ grant, asked }: Taken): void {
    if (grant === undefined) return;
    const confirmation = { grant: grant.id, calledInMs: mostSince(this.clock, asked) };
    confirmationsOf(this.#storage, this.clock).add(confirmation, grant.confirmInMs);
  }

  release({ token, held }: Taken): Promise<void> | void {
    if (!held) return;
    this.#renewals.end(token);
    return this.#give(token, "released");
  }

  cancel({ token }: Taken): Promise<void> {
    this.#renewals.end(token);
    return this.#give(token, "cancelled");
  }

  settle({ token }: Taken, used: number): Promise<void> {
    return this.#give(token, { used });
  }

  #give(token: string, given: LimitGiven): Promise<void> {
    return inTime(this.clock, () => this.#storage.limits.give(token, given), { who: `the storage of "${this.name}"` });
  }

  /** Nobody waits for it any more. */
  #cancelLate(answer: LimitTaken): void {
    if (answer.granted) this.#give(answer.token, "cancelled").catch(() => {});
  }
}
