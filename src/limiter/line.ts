import type { Clock } from "../core/clock.ts";
import { both } from "../limits/compose.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Blocked, WaitingLine } from "./blocked.ts";
import type { Gate } from "./gate.ts";
import type { Refusal } from "./limiter.ts";
import { impossible, refusal } from "./refusal.ts";
import type { MakeTurns, RemoteTurns } from "./remote-turns.ts";
import { type Member, type Charged, type Tokens, weightFor, type Weights } from "./charging.ts";
import type { Composition, Waiter } from "./waiter.ts";

/** Nothing was taken. */
export const NOT_NOW: unique symbol = Symbol("not now");

let arrivals = 0;
/** A newcomer behind waiters is told to retry after at least this long. */
const LEAST_MS = 1;
/** The order of a request that is not in line: after all waiters. */
const NEWCOMER = Number.POSITIVE_INFINITY;
/** After so many moves from one full gate to another a waiter is registered at all of its gates. */
const MOST_MOVES = 16;
/** Waiters that left may stay linked until they outnumber the others by so many. */
const MOST_LEFT = 100;

/**
 * Waiters for the same parts, first come, first served. The first in line keeps its place: no waiter behind it
 * starts under the gate that blocks it, however light, and neither does a waiter of another line.
 *
 * An empty line costs nothing: no timer, no listener, no entry anywhere.
 */
export class Line implements WaitingLine {
  readonly #composition: () => Composition;

  /** Never a waiter that has left. */
  #first: Waiter | undefined;
  #last: Waiter | undefined;
  #length = 0;
  /** How many waiters have left from the middle and are still linked. */
  #left = 0;

  /** The gate that blocks the first in line, and until when. The line is registered at that gate. */
  #blockedAt: Gate | undefined;
  #blockedWaiter: Waiter | undefined;
  /** Where the line is registered: at that gate, or at all gates after too many moves. */
  #registeredAt: readonly Blocked[] = NONE;
  /** How often the waiter with the order `#movedFor` was moved from one gate to another. */
  #moves = 0;
  #movedFor = 0;
  #blockedUntil = WHEN_RELEASED;
  #cancelTimer: (() => void) | undefined;
  #advancing = false;
  /** How turns are taken where some parts are not gates. undefined: all parts are gates, and nothing else is loaded. */
  readonly turns: MakeTurns | undefined;
  readonly #remote: RemoteTurns | undefined;

  /** The blocker that `#ask` found. Fields, because `#ask` runs at every start and must not allocate. */
  #blocker: Gate | undefined;
  #wait: Wait = 0;

  constructor(composition: () => Composition, turns?: MakeTurns) {
    this.#composition = composition;
    this.turns = turns;
    this.#remote = turns?.(this, composition);
  }

  /** How many wait. */
  get length(): number {
    return this.#length;
  }

  /** Adds a waiter. If it is first and its weight is available, `start` is called before this returns. */
  join(waiter: Waiter): void {
    waiter.order = ++arrivals;
    if (this.#last === undefined) this.#first = waiter;
    else this.#last.next = waiter;
    this.#last = waiter;
    this.#length += 1;
    if (this.#first === waiter) this.advance();
  }

  /** Removes a waiter. False: it was not in line any more. */
  leave(waiter: Waiter): boolean {
    if (!waiter.inLine) return false;
    if (this.#first === waiter) {
      this.shift();
      this.advance();
      return true;
    }
    // A waiter in the middle stays linked until the line reaches it, or until there are too many of them.
    waiter.order = 0;
    this.#length -= 1;
    this.#left += 1;
    if (this.#left > this.#length + MOST_LEFT) this.#sweep();
    return true;
  }

  /** All waiters in line. */
  *[Symbol.iterator](): Iterator<Waiter> {
    let waiter = this.#first;
    while (waiter !== undefined) {
      const { next }: Waiter = waiter;
      if (waiter.inLine) yield waiter;
      waiter = next;
    }
  }

  /** How much longer its first waiter waits at the least, as far as is known. */
  get remaining(): Wait {
    if (this.#blockedAt === undefined || this.#blockedUntil === WHEN_RELEASED) return WHEN_RELEASED;
    return Math.max(0, this.#blockedUntil - this.#blockedAt.clock.now());
  }

  get firstOrder(): number {
    return this.#first?.order ?? Number.POSITIVE_INFINITY;
  }

  /** Charges synchronously if the line is empty and the weight is available; else returns `NOT_NOW`. */
  takeNow(weights: Weights): Tokens {
    if (this.#length > 0) return NOT_NOW;
    const { gates, clock, timed } = this.#composition();
    if (gates === undefined) return NOT_NOW;
    const now = timed ? clock.now() : 0;
    return this.#ask(gates, weights, clock, now, NEWCOMER) ? take(weights, gates, clock, now) : NOT_NOW;
  }

  /** The current members, which `takeNow` has just charged. */
  get members(): readonly Member[] {
    return this.#composition().members;
  }

  /** Charges now, or returns the refusal. */
  tryTake(weights: Weights): Charged | Refusal | Promise<Charged | Refusal> {
    const { gates, clock } = this.#composition();
    if (gates === undefined) return this.#remote!.tryTake(weights);
    const now = clock.now();
    return this.#refuse(gates, weights, clock, now) ?? { members: gates, tokens: take(weights, gates, clock, now) };
  }

  /** The refusal that `tryTake` would return; charges nothing. Only where all parts are gates. */
  peek(weights: Weights): Refusal | undefined {
    const { gates, clock } = this.#composition();
    return gates && this.#refuse(gates, weights, clock, clock.now());
  }

  /** Starts waiters in order until one has to wait. */
  advance(): void {
    // The work being started here released something: the running loop sees it.
    if (this.#advancing) return;
    this.#advancing = true;
    const inFrontAt = this.#inFrontAt();
    let remote = false;
    for (let waiter = this.#first; waiter !== undefined; waiter = this.#first) {
      const { gates, clock, timed } = this.#composition();
      if (gates === undefined) {
        remote = true;
        break;
      }
      // The registration belongs to a waiter, not to the line: the next waiter may have come after those of other lines.
      if (this.#blockedWaiter !== waiter && this.#blockedWaiter !== undefined && this.#crowded()) this.#unblock();
      const now = timed ? clock.now() : 0;
      if (this.#ask(gates, waiter.weights, clock, now, waiter.order)) {
        const tokens = take(waiter.weights, gates, clock, now);
        this.shift();
        waiter.start(gates, tokens);
      } else if (this.#wait === NEVER) {
        this.shift();
        waiter.fail(impossible(this.#blocker!, waiter.weights));
      } else {
        this.#block(waiter, this.#blocker!, now, gates);
        break;
      }
    }
    if (remote || this.#first === undefined) this.#unblock();
    this.#advancing = false;
    // The line that is first there now has waited only for this line so far, and not for the limit itself.
    for (let i = 0; i < inFrontAt.length; i++) if (inFrontAt[i]!.first !== this) inFrontAt[i]!.wakeUps.notify();
    if (remote) this.#remote!.advance();
  }

  /** Does it matter at what instant a start is called? */
  get timed(): boolean {
    return this.#composition().timed;
  }

  /** Are all parts gates, so that every decision is synchronous? */
  get local(): boolean {
    return this.#composition().gates !== undefined;
  }

  /** The first in line. */
  get first(): Waiter | undefined {
    return this.#first;
  }

  /** Removes the first waiter, without starting the next. */
  shift(): void {
    const first = this.#first;
    if (first === undefined) return;
    first.order = 0;
    this.#length -= 1;
    let next = first.next;
    first.next = undefined;
    while (next !== undefined && !next.inLine) {
      this.#left -= 1;
      next = next.next;
    }
    this.#first = next;
    if (next === undefined) this.#last = undefined;
  }

  /** Unlinks the waiters in the middle that have left. */
  #sweep(): void {
    let last = this.#first;
    for (let waiter = last?.next; waiter !== undefined; waiter = waiter.next) {
      if (!waiter.inLine) continue;
      last!.next = waiter;
      last = waiter;
    }
    if (last !== undefined) last.next = undefined;
    this.#last = last;
    this.#left = 0;
  }

  /** The refusal of a request that comes now; undefined: it is granted. */
  #refuse(gates: readonly Member<Gate>[], weights: Weights, clock: Clock, now: number): Refusal | undefined {
    if (this.#ask(gates, weights, clock, now, NEWCOMER) && this.#length === 0) return undefined;
    const blocker = this.#blocker ?? this.#blockedAt;
    const wait = this.#blocker === undefined ? this.remaining : this.#wait;
    blocker?.refused(now);
    return refusal(blocker?.name ?? gates[0]?.part.name ?? "", wait);
  }

  /** Do all gates grant a waiter with this `order`, with no earlier line blocked at any of them? */
  #ask(gates: readonly Member<Gate>[], weights: Weights, clock: Clock, now: number, order: number): boolean {
    this.#blocker = undefined;
    this.#wait = 0;
    for (let i = 0; i < gates.length; i++) {
      const member = gates[i]!;
      const gate = member.part;
      let wait = gate.wait(gate.timeAt(clock, now), weightFor(weights, member));
      const ahead = gate.blocked.first;
      if (ahead !== undefined && ahead !== this && ahead.firstOrder < order) {
        // A waiter in line is woken when its turn comes; a newcomer gets the time after which to retry.
        wait = both(wait, order === NEWCOMER ? Math.max(ahead.remaining, LEAST_MS) : WHEN_RELEASED);
      }
      if (wait === 0) continue;
      const joint = both(this.#wait, wait);
      if (joint === this.#wait) continue;
      this.#wait = joint;
      this.#blocker = gate;
    }
    return this.#blocker === undefined;
  }

  /** Registers the first in line at `gate`, and sets a timer unless it waits for a release. */
  #block(waiter: Waiter, gate: Gate, now: number, gates: readonly Member<Gate>[]): void {
    if (this.#movedFor !== waiter.order) this.#moves = 0;
    this.#movedFor = waiter.order;
    if (this.#blockedAt !== gate) {
      this.#moves += 1;
      this.#unblock();
      this.#blockedAt = gate;
      // After too many moves the line stays registered at all gates until all of them grant.
      const registered = this.#moves > MOST_MOVES ? gates.map(({ part }) => part.blocked) : [gate.blocked];
      this.#registeredAt = [...new Set(registered)];
      for (const blocked of this.#registeredAt) blocked.add(this);
      gate.refused(now);
    }
    this.#blockedWaiter = waiter;
    const until = this.#wait === WHEN_RELEASED ? WHEN_RELEASED : gate.clock.now() + this.#wait;
    if (this.#cancelTimer !== undefined && until === this.#blockedUntil) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#blockedUntil = until;
    if (until === WHEN_RELEASED) return;
    this.#cancelTimer = gate.clock.after(this.#wait, () => {
      this.#cancelTimer = undefined;
      this.advance();
    });
  }

  /** Are other lines registered at the same gate, or is this line registered at several? */
  #crowded(): boolean {
    return this.#registeredAt.length > 1 || (this.#registeredAt[0]?.length ?? 0) > 1;
  }

  /** The gates at which this line is first. */
  #inFrontAt(): readonly Blocked[] {
    if (this.#registeredAt.length > 1) return this.#registeredAt.filter((blocked) => blocked.first === this);
    return this.#registeredAt[0]?.first === this ? this.#registeredAt : NONE;
  }

  #unblock(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    for (const blocked of this.#registeredAt) blocked.remove(this);
    this.#registeredAt = NONE;
    this.#blockedAt = undefined;
    this.#blockedWaiter = undefined;
  }
}

const NONE: readonly Blocked[] = [];

/** Charges every member, in one step. */
function take(weights: Weights, gates: readonly Member<Gate>[], clock: Clock, now: number): Tokens {
  if (gates.length === 1) return gates[0]!.part.take(now, weightFor(weights, gates[0]!));
  const tokens: unknown[] = [];
  for (let i = 0; i < gates.length; i++) {
    const member = gates[i]!;
    const { part } = member;
    tokens.push(member.takes ? part.take(part.timeAt(clock, now), weightFor(weights, member)) : undefined);
  }
  return tokens;
}
