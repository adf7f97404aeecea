import { both } from "../limits/compose.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Blocked, WaitingLine } from "./blocked.ts";
import type { Gate } from "./gate.ts";
import { impossible } from "./refusal.ts";
import type { MakeTurns, RemoteTurns } from "./remote-turns.ts";
import { type Member, type Tokens, weightFor, type Weights } from "./charging.ts";
import type { Composition, GateComposition, Waiter } from "./waiter.ts";

/** Nothing was taken. */
export const NOT_NOW: unique symbol = Symbol("not now");
/** The order of a request that is not in line: after all waiters. */
export const NEWCOMER = Infinity;

let arrivals = 0;
/** A newcomer behind waiters retries after at least this long. */
const LEAST_MS = 1;
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
  readonly composition: () => Composition;
  /** How turns are taken where some parts are not gates. undefined: all parts are gates, and nothing else is loaded. */
  readonly turns: MakeTurns | undefined;
  readonly remote: RemoteTurns | undefined;

  /** The first in line. Never a waiter that has left. */
  first: Waiter | undefined;
  #last: Waiter | undefined;
  /** How many wait. */
  length = 0;
  /** How many waiters have left from the middle and are still linked. */
  #left = 0;

  /** The gate that blocks the first in line, and until when. The line is registered at that gate. */
  blockedAt: Gate | undefined;
  #blockedUntil = WHEN_RELEASED;
  #blockedWaiter: Waiter | undefined;
  /** Where the line is registered: at that gate, or at all gates after too many moves. */
  #registeredAt: readonly Blocked[] = NONE;
  /** How often the first in line was moved from one gate to another. */
  #moves = 0;
  #cancelTimer: (() => void) | undefined;
  #advancing = false;

  /** The blocker that `ask` found, and its wait. Fields, because `ask` runs at every start and must not allocate. */
  blocker: Member<Gate> | undefined;
  wait: Wait = 0;

  constructor(composition: () => Composition, turns?: MakeTurns) {
    this.composition = composition;
    this.turns = turns;
    this.remote = turns?.(this, composition);
  }

  /** Adds a waiter. If it is first and its weight is available, `start` is called before this returns. */
  join(waiter: Waiter): void {
    waiter.order = ++arrivals;
    if (this.#last === undefined) this.first = waiter;
    else this.#last.next = waiter;
    this.#last = waiter;
    this.length += 1;
    if (this.first === waiter) this.advance();
  }

  /** Removes a waiter. False: it was not in line any more. */
  leave(waiter: Waiter): boolean {
    if (!waiter.inLine) return false;
    if (this.first === waiter) {
      this.shift();
      this.advance();
    } else {
      // A waiter in the middle stays linked until the line reaches it, or until there are too many of them.
      waiter.order = 0;
      this.length -= 1;
      this.#left += 1;
      if (this.#left <= this.length + MOST_LEFT) return true;
      for (let each = this.first; each !== undefined; each = each.next) this.#unlinkAfter(each);
    }
    return true;
  }

  /** How much longer its first waiter waits at the least, as far as is known. */
  get remaining(): Wait {
    return this.blockedAt === undefined ? WHEN_RELEASED : Math.max(0, this.#blockedUntil - this.blockedAt.clock.now());
  }

  get firstOrder(): number {
    return this.first?.order ?? NEWCOMER;
  }

  /** Charges synchronously if the line is empty and the weight is available; else returns `NOT_NOW`. */
  takeNow(weights: Weights): Tokens {
    if (this.length > 0) return NOT_NOW;
    const composition = this.composition();
    if (!composition.local) return NOT_NOW;
    const now = composition.timed ? composition.clock.now() : 0;
    return this.ask(composition, weights, now, NEWCOMER) ? take(composition, weights, now) : NOT_NOW;
  }

  /** Starts waiters in order until one has to wait. */
  advance(): void {
    // The work being started here released something: the running loop sees it.
    if (this.#advancing) return;
    this.#advancing = true;
    const inFrontAt = this.#inFrontAt();
    let remote = false;
    for (let waiter = this.first; waiter !== undefined; waiter = this.first) {
      const composition = this.composition();
      if (!composition.local) {
        remote = true;
        break;
      }
      // The registration belongs to a waiter, not to the line: the next waiter may have come after those of other lines.
      if (this.#blockedWaiter !== waiter && this.#blockedWaiter !== undefined && this.#crowded()) this.#unblock();
      const now = composition.timed ? composition.clock.now() : 0;
      if (this.ask(composition, waiter.weights, now, waiter.order)) {
        const tokens = take(composition, waiter.weights, now);
        this.shift();
        waiter.start(composition.members, tokens);
      } else if (this.wait === NEVER) {
        this.shift();
        waiter.fail(impossible(this.blocker!.part, weightFor(waiter.weights, this.blocker!)));
      } else {
        this.#block(waiter, this.blocker!.part, now, composition);
        break;
      }
    }
    if (remote || this.first === undefined) this.#unblock();
    this.#advancing = false;
    // The line that is first there now has waited only for this line so far, and not for the limit itself.
    for (let i = 0; i < inFrontAt.length; i++) if (inFrontAt[i]!.first !== this) inFrontAt[i]!.wakeUps.notify();
    if (remote) this.remote!.advance();
  }

  /** Removes the first waiter, without starting the next. */
  shift(): void {
    const first = this.first!;
    first.order = 0;
    this.length -= 1;
    this.#moves = 0;
    this.#unlinkAfter(first);
    this.first = first.next;
    first.next = undefined;
    if (this.first === undefined) this.#last = undefined;
  }

  /** Unlinks the waiters that have left, up to the next one in line. */
  #unlinkAfter(waiter: Waiter): void {
    for (; waiter.next !== undefined && !waiter.next.inLine; this.#left -= 1) waiter.next = waiter.next.next;
    if (waiter.next === undefined) this.#last = waiter;
  }

  /** Do all gates grant a waiter with this `order`, with no earlier line blocked at any of them? */
  ask({ members, clock }: GateComposition, weights: Weights, now: number, order: number): boolean {
    this.blocker = undefined;
    this.wait = 0;
    for (let i = 0; i < members.length; i++) {
      const member = members[i]!;
      const gate = member.part;
      let wait = gate.wait(gate.timeAt(clock, now), weightFor(weights, member));
      const earlier = gate.blocked.first;
      if (earlier !== undefined && earlier !== this && earlier.firstOrder < order) {
        // A waiter in line is woken when its turn comes; a newcomer gets the time after which to retry.
        wait = both(wait, order === NEWCOMER ? Math.max(earlier.remaining, LEAST_MS) : WHEN_RELEASED);
      }
      if (wait === 0) continue;
      const joint = both(this.wait, wait);
      if (joint === this.wait) continue;
      this.wait = joint;
      this.blocker = member;
    }
    return this.blocker === undefined;
  }

  /** Registers the first in line at `gate`, and sets a timer unless it waits for a release. */
  #block(waiter: Waiter, gate: Gate, now: number, { members }: GateComposition): void {
    if (this.blockedAt !== gate) {
      this.#moves += 1;
      this.#unblock();
      this.blockedAt = gate;
      // After too many moves the line stays registered at all gates until all of them grant.
      const registered = this.#moves > MOST_MOVES ? members.map(({ part }) => part.blocked) : [gate.blocked];
      this.#registeredAt = [...new Set(registered)];
      for (const blocked of this.#registeredAt) blocked.add(this);
      gate.refused(now);
    }
    this.#blockedWaiter = waiter;
    const until = this.wait === WHEN_RELEASED ? WHEN_RELEASED : gate.clock.now() + this.wait;
    if (this.#cancelTimer !== undefined && until === this.#blockedUntil) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#blockedUntil = until;
    if (until === WHEN_RELEASED) return;
    this.#cancelTimer = gate.clock.after(this.wait, () => {
      this.#cancelTimer = undefined;
      this.advance();
    });
  }

  /** Are other lines registered at the same gate, or is this line registered at several? */
  #crowded(): boolean {
    return this.#registeredAt.length > 1 || this.#registeredAt[0]!.length > 1;
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
    this.blockedAt = undefined;
    this.#blockedWaiter = undefined;
  }
}

const NONE: readonly Blocked[] = [];

/** Charges every member, in one step. */
export function take({ members, clock }: GateComposition, weights: Weights, now: number): Tokens {
  if (members.length === 1) return members[0]!.part.take(now, weightFor(weights, members[0]!));
  const tokens: unknown[] = [];
  for (let i = 0; i < members.length; i++) {
    const member = members[i]!;
    const { part } = member;
    tokens.push(member.takes ? part.take(part.timeAt(clock, now), weightFor(weights, member)) : undefined);
  }
  return tokens;
}
