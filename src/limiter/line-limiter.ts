import { dateIn } from "../core/clock.ts";
import {
  date,
  optional,
  readArgument,
  readOptions,
  signal,
  weight as weightRule,
  weightOrZero,
} from "../core/options.ts";
import { holdGate, type LimiterGate, nextAvailableIn } from "./gate.ts";
import { refusal } from "./refusal.ts";
import type { AcquireOptions, Limiter, Permit, Refusal, TryAcquireOptions } from "./limiter.ts";
import { type Line, NEWCOMER, NOT_NOW, take } from "./line.ts";
import { type BuiltIn, declare } from "./parts.ts";
import {
  type LimiterPart,
  cancel,
  type Charged,
  isLate,
  type Member,
  release,
  settle,
  reportCalled,
  type Tokens,
  DEFAULT_WEIGHT,
  type Weights,
} from "./charging.ts";
import { Waiter } from "./waiter.ts";

const TRY = { weight: optional(weightRule) };
const WAIT = { ...TRY, signal: optional(signal) };

/** The common part of all built-in limiters: a request is charged in one step, or waits in line. */
export abstract class LineLimiter implements Limiter {
  readonly #line: Line;

  constructor(parts: () => readonly LimiterPart[], builtIn: BuiltIn) {
    this.#line = declare(this, parts, builtIn);
  }

  /** How many callers of `acquire` and of wrapped functions are waiting in line. */
  get waiting(): number {
    return this.#line.length;
  }

  tryAcquire(options?: TryAcquireOptions): Promise<Permit | Refusal> {
    const permit = options === undefined ? this.#permitNow() : undefined;
    return permit === undefined ? this.#tryAcquire(options) : Promise.resolve(permit);
  }

  acquire(options?: AcquireOptions): Promise<Permit> {
    const permit = options === undefined ? this.#permitNow() : undefined;
    if (permit !== undefined) return Promise.resolve(permit);
    return new Promise((resolve, reject) => {
      const { weight, signal: abort } = readOptions("acquire", WAIT, options ?? {});
      const grant = (given: GrantedPermit) => resolve(this.#handOut(given, options));
      const waiter = new PermitWaiter(weight ?? DEFAULT_WEIGHT, grant, reject);
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

  #permitNow(): Permit | undefined {
    const tokens = this.#line.takeNow(1);
    return tokens === NOT_NOW
      ? undefined
      : this.#handOut(new GrantedPermit(this.#line.composition().members, tokens, 1));
  }

  async #tryAcquire(options: TryAcquireOptions = {}): Promise<Permit | Refusal> {
    const weights = readOptions("tryAcquire", TRY, options).weight ?? DEFAULT_WEIGHT;
    const answer = await tryTake(this.#line, weights);
    if ("granted" in answer) return answer;
    return this.#handOut(new GrantedPermit(answer.members, answer.tokens, weights), options);
  }

  /** A permit is used from the moment at which it is handed out, unless its holder reports the call itself. */
  #handOut(permit: GrantedPermit, options?: object): Permit {
    if (this.#line.composition().timed && (options === undefined || !uncalled.has(options))) calledSoon(permit);
    return permit;
  }

  /** Would one more be granted at once? */
  protected hasRoom(): boolean {
    return refusedNow(this.#line, 1) === undefined;
  }
}

/** Charges now, or returns the refusal. */
function tryTake(line: Line, weights: Weights): Charged | Refusal | Promise<Charged | Refusal> {
  const composition = line.composition();
  if (!composition.local) return line.remote!.tryTake(weights);
  const { members, clock } = composition;
  return refusedNow(line, weights) ?? { members, tokens: take(composition, weights, clock.now()) };
}

/** The refusal of a request that comes now; undefined: it is granted. Charges nothing. Only where all parts are gates. */
function refusedNow(line: Line, weights: Weights): Refusal | undefined {
  const composition = line.composition();
  if (!composition.local) return undefined;
  const now = composition.clock.now();
  if (line.ask(composition, weights, now, NEWCOMER) && line.length === 0) return undefined;
  const blocker = line.blocker?.part ?? line.blockedAt;
  blocker?.refused(now);
  const name = blocker?.name ?? composition.members[0]?.part.name ?? "";
  return refusal(name, line.blocker === undefined ? line.remaining : line.wait);
}

/** A limiter that keeps its state in this process. */
export abstract class GateLimiter extends LineLimiter {
  readonly #gates: readonly LimiterGate[];

  constructor(gates: readonly LimiterGate[], builtIn: BuiltIn) {
    super(() => gates, builtIn);
    this.#gates = gates;
  }

  async canProceed(): Promise<boolean> {
    return this.hasRoom();
  }

  async recordJobStart(): Promise<void> {
    for (const gate of this.#gates) gate.recordStart();
  }

  async recordJobCompletion(): Promise<void> {
    for (const gate of this.#gates) gate.recordCompletion?.();
  }

  async getNextAvailableTime(): Promise<Date> {
    const { clock } = this.#gates[0]!;
    const now = clock.now();
    return dateIn(clock, Math.max(...this.#gates.map((gate) => nextAvailableIn(gate, now))));
  }

  async setNextAvailableTime(at: Date): Promise<void> {
    const until = readArgument("setNextAvailableTime", "date", date, at);
    for (const gate of this.#gates) holdGate(gate, until.getTime() - gate.clock.wall());
  }

  async clear(): Promise<void> {
    for (const gate of this.#gates) gate.reset();
    for (const gate of this.#gates) gate.wakeUps.notify();
  }
}

class PermitWaiter extends Waiter {
  readonly #resolve: (permit: GrantedPermit) => void;
  readonly #reject: (reason: unknown) => void;
  #stopListening: (() => void) | undefined;

  constructor(weights: Weights, resolve: (permit: GrantedPermit) => void, reject: (reason: unknown) => void) {
    super(weights);
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

  start(members: readonly Member[], tokens: Tokens): void {
    this.#stopListening?.();
    this.#resolve(new GrantedPermit(members, tokens, this.weights));
  }

  fail(reason: unknown): void {
    this.#stopListening?.();
    this.#reject(reason);
  }
}

/** Options of callers that report themselves when they use a permit. */
const uncalled = new WeakSet<object>();

/** With these options a permit of ours counts as not used yet, until `callPermit`, `cancel` or `release`. */
export function toBeCalled<Options extends object>(options: Options): Options {
  uncalled.add(options);
  return options;
}

/** The work that the permit is for was called just now. */
export function callPermit(permit: Permit): void {
  if (permit instanceof GrantedPermit) permit.call();
}

/** Was it granted too long ago to be used? */
export function isPermitLate(permit: Permit): boolean {
  return permit instanceof GrantedPermit && permit.late;
}

/** Permits that were handed out just now. */
let handedOut: GrantedPermit[] = [];
let calling = false;

/** After so many microtasks the code that awaits a permit has continued, and what was queued before it too. */
const HOPS = 8;

/**
 * The code that awaits a permit continues some microtasks later, and the microtasks before it may take long. So the call counts
 * from when all of them are done.
 */
function calledSoon(permit: GrantedPermit): void {
  handedOut.push(permit);
  if (calling) return;
  calling = true;
  void callHandedOut();
}

async function callHandedOut(): Promise<void> {
  while (handedOut.length > 0) {
    const permits = handedOut;
    handedOut = [];
    for (let hop = 0; hop < HOPS; hop++) await DONE;
    for (const permit of permits) permit.call();
  }
  calling = false;
}

const DONE = Promise.resolve();

/** The permit of a caller. Returns its charges at most once, whatever is called how often. */
class GrantedPermit implements Permit {
  readonly granted = true;
  #state: "open" | "released" | "cancelled" = "open";
  #called = false;
  readonly #members: readonly Member[];
  readonly #tokens: Tokens;
  readonly #weights: Weights;

  constructor(members: readonly Member[], tokens: Tokens, weights: Weights) {
    this.#members = members;
    this.#tokens = tokens;
    this.#weights = weights;
  }

  get late(): boolean {
    return isLate(this.#members, this.#tokens);
  }

  call(): void {
    if (this.#called || this.#state === "cancelled") return;
    this.#called = true;
    reportCalled(this.#members, this.#tokens);
  }

  release(): Promise<void> {
    if (this.#state !== "open") return DONE;
    this.call();
    this.#state = "released";
    return release(this.#members, this.#tokens, this.#weights) ?? DONE;
  }

  cancel(): Promise<void> {
    if (this.#state !== "open") return DONE;
    this.#state = "cancelled";
    return cancel(this.#members, this.#tokens, this.#weights) ?? DONE;
  }

  async settle(weight: number): Promise<void> {
    const used = readArgument("settle", "weight", weightOrZero, weight);
    if (this.#state !== "cancelled") await settle(this.#members, this.#tokens, used);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.release();
  }
}
