import type { Clock } from "../core/clock.ts";
import { both } from "../limits/compose.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Blocked, WaitingLine } from "./blocked.ts";
import type { Gate } from "./gate.ts";
import type { Refusal } from "./limiter.ts";
import { impossible, refusal } from "./refusal.ts";
import type { MakeTurns, RemoteTurns } from "./remote-turns.ts";
import { type Member, type Taken, type Tokens, weightFor, type Weights } from "./taking.ts";
import type { Composition, Waiter } from "./waiter.ts";

/** Nothing was taken. */
export const NOT_NOW: unique symbol = Symbol("not now");

let arrivals = 0;
/** Behind others one waits at least this long, whatever they are told. */
const LEAST_MS = 1;
/** The order of somebody who is not in line: after everyone who is. */
const NEWCOMER = Number.POSITIVE_INFINITY;
/** So often may somebody be sent from one full limit to the next before they keep their place at all of them. */
const MOST_MOVES = 16;
/** So many more than wait may have left and still be linked. */
const MOST_LEFT = 100;

/**
 * Those who wait for the same parts, first come, first served. The first in line holds its place: nobody behind it
 * takes from the gate that holds it up, however little they ask for, and neither does any other line.
 *
 * While nobody waits a line costs nothing: no timer, no listener, no entry anywhere.
 */
export class Line implements WaitingLine {
  readonly #composition: () => Composition;

  /** In line, never one who has left. */
  #first: Waiter | undefined;
  #last: Waiter | undefined;
  #length = 0;
  /** How many have left from the middle and are still linked. */
  #left = 0;

  /** The gate that holds up the first in line, and until when. The gate knows of it. */
  #heldBy: Gate | undefined;
  #heldFor: Waiter | undefined;
  /** Where it is registered: at that gate; at all, for somebody who has been sent from one to the next too often. */
  #places: readonly Blocked[] = NOWHERE;
  /** How often the one who came at `#movedFor` has been sent from one gate to another. */
  #moves = 0;
  #movedFor = 0;
  #heldUntil = WHEN_RELEASED;
  #cancelTimer: (() => void) | undefined;
  #advancing = false;
  /** How its turns are taken where some parts are no gates. A line that has none has gates alone, and loads nothing for others. */
  readonly turns: MakeTurns | undefined;
  readonly #remote: RemoteTurns | undefined;

  /** What `#ask` found in the way. Fields, for this is asked at every start and must not allocate. */
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

  /** Stands in line. If nobody is ahead and there is room, `start` is called before this returns. */
  join(waiter: Waiter): void {
    waiter.order = ++arrivals;
    if (this.#last === undefined) this.#first = waiter;
    else this.#last.next = waiter;
    this.#last = waiter;
    this.#length += 1;
    if (this.#first === waiter) this.advance();
  }

  /** Leaves the line. False: was not in it any more. */
  leave(waiter: Waiter): boolean {
    if (!waiter.inLine) return false;
    if (this.#first === waiter) {
      this.shift();
      this.advance();
      return true;
    }
    // Somebody in the middle stays linked until the line comes to them, or until there are too many of them.
    waiter.order = 0;
    this.#length -= 1;
    this.#left += 1;
    if (this.#left > this.#length + MOST_LEFT) this.#sweep();
    return true;
  }

  /** Everyone in line. */
  *[Symbol.iterator](): Iterator<Waiter> {
    let waiter = this.#first;
    while (waiter !== undefined) {
      const { next }: Waiter = waiter;
      if (waiter.inLine) yield waiter;
      waiter = next;
    }
  }

  /** How much longer its first waits at the least, as far as anybody can tell. */
  get remaining(): Wait {
    if (this.#heldBy === undefined || this.#heldUntil === WHEN_RELEASED) return WHEN_RELEASED;
    return Math.max(0, this.#heldUntil - this.#heldBy.clock.now());
  }

  get firstOrder(): number {
    return this.#first?.order ?? Number.POSITIVE_INFINITY;
  }

  /** Takes on the spot, if nobody is ahead and there is room; else answers `NOT_NOW`. */
  takeNow(weights: Weights): Tokens {
    if (this.#length > 0) return NOT_NOW;
    const { gates, clock, timed } = this.#composition();
    if (gates === undefined) return NOT_NOW;
    const now = timed ? clock.now() : 0;
    return this.#ask(gates, weights, clock, now, NEWCOMER) ? take(weights, gates, clock, now) : NOT_NOW;
  }

  /** What it is made of now, and so what `takeNow` has just taken from. */
  get members(): readonly Member[] {
    return this.#composition().members;
  }

  /** Takes now, or not at all and says why. */
  tryTake(weights: Weights): Taken | Refusal | Promise<Taken | Refusal> {
    const { gates, clock } = this.#composition();
    if (gates === undefined) return this.#remote!.tryTake(weights);
    const now = clock.now();
    return this.#refuse(gates, weights, clock, now) ?? { members: gates, tokens: take(weights, gates, clock, now) };
  }

  /** What `tryTake` would say, with nothing taken. Only where everything is decided on the spot. */
  peek(weights: Weights): Refusal | undefined {
    const { gates, clock } = this.#composition();
    return gates && this.#refuse(gates, weights, clock, clock.now());
  }

  /** Starts everyone whose turn has come, in order, until one has to wait. */
  advance(): void {
    // Something given back by the very work being started here: the loop that starts it will see.
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
      // A place belongs to a waiter, not to the line: the next one may have come after others who wait there.
      if (this.#heldFor !== waiter && this.#heldFor !== undefined && this.#crowded()) this.#free();
      const now = timed ? clock.now() : 0;
      if (this.#ask(gates, waiter.weights, clock, now, waiter.order)) {
        const tokens = take(waiter.weights, gates, clock, now);
        this.shift();
        waiter.start(gates, tokens);
      } else if (this.#wait === NEVER) {
        this.shift();
        waiter.fail(impossible(this.#blocker!, waiter.weights));
      } else {
        this.#hold(waiter, this.#blocker!, now, gates);
        break;
      }
    }
    if (remote || this.#first === undefined) this.#free();
    this.#advancing = false;
    // Whoever is in front there now has only waited for this line so far, and not for the limit itself.
    for (let i = 0; i < inFrontAt.length; i++) if (inFrontAt[i]!.first !== this) inFrontAt[i]!.wakeUps.notify();
    if (remote) this.#remote!.advance();
  }

  /** Does it matter at what instant a start is called? */
  get timed(): boolean {
    return this.#composition().timed;
  }

  /** Is everything decided on the spot? */
  get local(): boolean {
    return this.#composition().gates !== undefined;
  }

  /** The first in line. */
  get first(): Waiter | undefined {
    return this.#first;
  }

  /** Takes the first out of the line, and does not look whether the next may start. */
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

  /** Unlinks those in the middle who have left. */
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

  /** Why somebody who comes now would have to wait. */
  #refuse(gates: readonly Member<Gate>[], weights: Weights, clock: Clock, now: number): Refusal | undefined {
    if (this.#ask(gates, weights, clock, now, NEWCOMER) && this.#length === 0) return undefined;
    const blocker = this.#blocker ?? this.#heldBy;
    const wait = this.#blocker === undefined ? this.remaining : this.#wait;
    blocker?.refused(now);
    return refusal(blocker?.name ?? gates[0]?.part.name ?? "", wait);
  }

  /** Do all gates have room for somebody who came at `order`, with nobody ahead at any of them? */
  #ask(gates: readonly Member<Gate>[], weights: Weights, clock: Clock, now: number, order: number): boolean {
    this.#blocker = undefined;
    this.#wait = 0;
    for (let i = 0; i < gates.length; i++) {
      const member = gates[i]!;
      const gate = member.part;
      let wait = gate.wait(gate.timeAt(clock, now), weightFor(weights, member));
      const ahead = gate.blocked.first;
      if (ahead !== undefined && ahead !== this && ahead.firstOrder < order) {
        // Somebody in line is woken when it is their turn; a newcomer wants to know when to come back.
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

  /** The first in line waits at `gate`, for a release or for the time to come. */
  #hold(waiter: Waiter, gate: Gate, now: number, gates: readonly Member<Gate>[]): void {
    if (this.#movedFor !== waiter.order) this.#moves = 0;
    this.#movedFor = waiter.order;
    if (this.#heldBy !== gate) {
      this.#moves += 1;
      this.#free();
      this.#heldBy = gate;
      // Sent from one full limit to the next, again and again, it keeps its place at all of them until it gets them.
      const places = this.#moves > MOST_MOVES ? gates.map(({ part }) => part.blocked) : [gate.blocked];
      this.#places = [...new Set(places)];
      for (const blocked of this.#places) blocked.add(this);
      gate.refused(now);
    }
    this.#heldFor = waiter;
    const until = this.#wait === WHEN_RELEASED ? WHEN_RELEASED : gate.clock.now() + this.#wait;
    if (this.#cancelTimer !== undefined && until === this.#heldUntil) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#heldUntil = until;
    if (until === WHEN_RELEASED) return;
    this.#cancelTimer = gate.clock.after(this.#wait, () => {
      this.#cancelTimer = undefined;
      this.advance();
    });
  }

  /** Do others wait where this line does, or does it wait at more than one place? */
  #crowded(): boolean {
    return this.#places.length > 1 || (this.#places[0]?.length ?? 0) > 1;
  }

  /** The places at which nobody is ahead. */
  #inFrontAt(): readonly Blocked[] {
    if (this.#places.length > 1) return this.#places.filter((blocked) => blocked.first === this);
    return this.#places[0]?.first === this ? this.#places : NOWHERE;
  }

  #free(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    for (const blocked of this.#places) blocked.remove(this);
    this.#places = NOWHERE;
    this.#heldBy = undefined;
    this.#heldFor = undefined;
  }
}

const NOWHERE: readonly Blocked[] = [];

/** Every member takes, in one step. */
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
