import { dateIn } from "../core/clock.ts";
import { count, countOrZero, date, optional, readArgument, readOptions, signal } from "../core/options.ts";
import type { Gate } from "./gate.ts";
import type { AcquireOptions, Limiter, Permit, Refusal, TryAcquireOptions } from "./limiter.ts";
import type { Line } from "./line.ts";
import { declare } from "./parts.ts";
import { type AnyPart, Ticket } from "./ticket.ts";
import { Waiter } from "./waiter.ts";

const TRY = { weight: optional(count, 1) };
const WAIT = { weight: optional(count, 1), signal: optional(signal, undefined) };

/** What all built-in limiters share: one takes from them in one step, or stands in line. */
export abstract class LineLimiter implements Limiter {
  readonly #line: Line;

  constructor(parts: () => readonly AnyPart[]) {
    this.#line = declare(this, parts);
  }

  /** How many callers of `acquire` and of wrapped functions are waiting in line. */
  get waiting(): number {
    return this.#line.length;
  }

  tryAcquire(options?: TryAcquireOptions): Promise<Permit | Refusal> {
    const permit = new GrantedPermit();
    if (options === undefined && this.#line.takeNow(permit, 1)) return Promise.resolve(permit);
    return this.#tryAcquire(permit, options);
  }

  acquire(options?: AcquireOptions): Promise<Permit> {
    if (options === undefined) {
      const permit = new GrantedPermit();
      if (this.#line.takeNow(permit, 1)) return Promise.resolve(permit);
    }
    return new Promise((resolve, reject) => {
      const { weight, signal: abort } = readOptions("acquire", WAIT, options ?? {});
      const waiter = new PermitWaiter(weight, resolve, reject);
      if (abort === undefined) this.#line.join(waiter);
      else waiter.joinUnlessAborted(this.#line, abort);
    });
  }

  abstract canProceed(): Promise<boolean>;
  abstract recordJobStart(): Promise<void>;
  abstract recordJobCompletion(): Promise<void>;
  abstract getNextAvailableTime(): Promise<Date>;
  abstract setNextAvailableTime(date: Date): Promise<void>;
  abstract clear(): Promise<void>;

  async #tryAcquire(permit: GrantedPermit, options: TryAcquireOptions = {}): Promise<Permit | Refusal> {
    const { weight } = readOptions("tryAcquire", TRY, options);
    return (await this.#line.tryTake(permit, weight)) ?? permit;
  }

  /** Would one more be let through on the spot? */
  protected hasRoom(): boolean {
    return this.#line.peek(1) === undefined;
  }
}

/** A limiter that keeps its state in this process. */
export abstract class GateLimiter extends LineLimiter {
  readonly #gates: readonly Gate[];

  constructor(gates: readonly Gate[]) {
    super(() => gates);
    this.#gates = gates;
  }

  async canProceed(): Promise<boolean> {
    return this.hasRoom();
  }

  async recordJobStart(): Promise<void> {
    for (const gate of this.#gates) gate.recordStart();
  }

  async recordJobCompletion(): Promise<void> {
    for (const gate of this.#gates) gate.recordCompletion();
  }

  async getNextAvailableTime(): Promise<Date> {
    const { clock } = this.#gates[0]!;
    const now = clock.now();
    return dateIn(clock, Math.max(...this.#gates.map((gate) => gate.nextAvailableIn(now))));
  }

  async setNextAvailableTime(at: Date): Promise<void> {
    const until = readArgument("setNextAvailableTime", "date", date, at);
    for (const gate of this.#gates) gate.hold(until.getTime() - gate.clock.wall());
  }

  async clear(): Promise<void> {
    for (const gate of this.#gates) gate.clear();
  }
}

class PermitWaiter extends Waiter {
  readonly #resolve: (permit: Permit) => void;
  readonly #reject: (reason: unknown) => void;
  #stopListening: (() => void) | undefined;

  constructor(weight: number, resolve: (permit: Permit) => void, reject: (reason: unknown) => void) {
    super(weight);
    this.#resolve = resolve;
    this.#reject = reject;
  }

  joinUnlessAborted(line: Line, abort: AbortSignal): void {
    if (abort.aborted) return this.#reject(abort.reason);
    const onAbort = () => {
      if (line.leave(this)) this.#reject(abort.reason);
    };
    abort.addEventListener("abort", onAbort, { once: true });
    this.#stopListening = () => abort.removeEventListener("abort", onAbort);
    line.join(this);
  }

  ticket(): GrantedPermit {
    return new GrantedPermit();
  }

  start(permit: Ticket): void {
    this.#stopListening?.();
    this.#resolve(permit as GrantedPermit);
  }

  fail(reason: unknown): void {
    this.#stopListening?.();
    this.#reject(reason);
  }
}

const DONE = Promise.resolve();

/** A ticket in the caller's hands. */
class GrantedPermit extends Ticket implements Permit {
  readonly granted = true;

  override release(): Promise<void> {
    return super.release() ?? DONE;
  }

  override cancel(): Promise<void> {
    return super.cancel() ?? DONE;
  }

  override async settle(weight: number): Promise<void> {
    await super.settle(readArgument("settle", "weight", countOrZero, weight));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
