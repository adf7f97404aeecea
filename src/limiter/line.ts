import type { Clock } from "../core/clock.ts";
import { both } from "../limits/compose.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import type { Gate, WaitingLine } from "./gate.ts";
import type { Refusal } from "./limiter.ts";
import { impossible, refusal } from "./refusal.ts";
import { RemoteTurns } from "./remote-turns.ts";
import { type Member, type Ticket, weightFor, type Weights } from "./ticket.ts";
import type { Composition, Waiter } from "./waiter.ts";

let arrivals = 0;
/** The order of somebody who is not in line: after everyone who is. */
const NEWCOMER = Number.POSITIVE_INFINITY;

/**
 * Those who wait for the same parts, first come, first served. The first in line holds its place: nobody behind it
 * takes from the gate that holds it up, however little they ask for, and neither does any other line.
 *
 * While nobody waits a line costs nothing: no timer, no listener, no entry anywhere.
 */
export class Line implements WaitingLine {
  readonly #composition: () => Composition;

  #first: Waiter | undefined;
  #last: Waiter | undefined;
  #length = 0;

  /** The gate that holds up the first in line, and until when. The gate knows of it. */
  #heldBy: Gate | undefined;
  #heldUntil = WHEN_RELEASED;
  #cancelTimer: (() => void) | undefined;
  #advancing = false;
  readonly #remote: RemoteTurns;

  /** What `#ask` found in the way. Fields, for this is asked at every start and must not allocate. */
  #blocker: Gate | undefined;
  #wait: Wait = 0;

  constructor(composition: () => Composition) {
    this.#composition = composition;
    this.#remote = new RemoteTurns(this, composition);
  }

  /** How many wait. */
  get length(): number {
    return this.#length;
  }

  /** Stands in line. If nobody is ahead and there is room, `start` is called before this returns. */
  join(waiter: Waiter): void {
    waiter.order = ++arrivals;
    waiter.previous = this.#last;
    if (this.#last === undefined) this.#first = waiter;
    else this.#last.next = waiter;
    this.#last = waiter;
    this.#length += 1;
    if (this.#first === waiter) this.advance();
  }

  /** Leaves the line. False: was not in it any more. */
  leave(waiter: Waiter): boolean {
    const wasFirst = this.#first === waiter;
    if (!wasFirst && waiter.previous === undefined) return false;
    this.remove(waiter);
    if (wasFirst) this.advance();
    return true;
  }

  /** Everyone in line. */
  *[Symbol.iterator](): Iterator<Waiter> {
    let waiter = this.#first;
    while (waiter !== undefined) {
      const { next }: Waiter = waiter;
      yield waiter;
      waiter = next;
    }
  }

  get firstOrder(): number {
    return this.#first?.order ?? Number.POSITIVE_INFINITY;
  }

  /** Takes for `ticket` on the spot, if nobody is ahead and there is room. */
  takeNow(ticket: Ticket, weights: Weights): boolean {
    if (this.#length > 0) return false;
    const { gates, clock, timed } = this.#composition();
    if (gates === undefined) return false;
    const now = timed ? clock.now() : 0;
    if (!this.#ask(gates, weights, clock, now, NEWCOMER)) return false;
    take(ticket, weights, gates, clock, now);
    return true;
  }

  /** Takes for `ticket` now, or not at all and says why. */
  tryTake(ticket: Ticket, weights: Weights): Refusal | undefined | Promise<Refusal | undefined> {
    const { gates, clock } = this.#composition();
    if (gates === undefined) return this.#remote.tryTake(ticket, weights);
    const now = clock.now();
    const refused = this.#refuse(gates, weights, clock, now);
    if (refused === undefined) take(ticket, weights, gates, clock, now);
    return refused;
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
    const inFrontAt = this.#heldBy?.firstBlocked === this ? this.#heldBy : undefined;
    let remote = false;
    for (let waiter = this.#first; waiter !== undefined; waiter = this.#first) {
      const { gates, clock, timed } = this.#composition();
      if (gates === undefined) {
        remote = true;
        break;
      }
      const now = timed ? clock.now() : 0;
      if (this.#ask(gates, waiter.weights, clock, now, waiter.order)) {
        // With others behind, the place at the gate is given up before the next in this line is asked for.
        if (this.#heldBy !== undefined && this.#heldBy.blockedLines > 1) this.#free();
        const ticket = waiter.ticket();
        take(ticket, waiter.weights, gates, clock, now);
        this.remove(waiter);
        waiter.start(ticket);
      } else if (this.#wait === NEVER) {
        this.remove(waiter);
        waiter.fail(impossible(this.#blocker!, waiter.weights));
      } else {
        this.#hold(this.#blocker!, now, clock);
        break;
      }
    }
    if (remote || this.#first === undefined) this.#free();
    this.#advancing = false;
    // Whoever is in front at that gate now has only waited for this line so far, not for the gate itself.
    if (inFrontAt !== undefined && inFrontAt.firstBlocked !== this) inFrontAt.wake();
    if (remote) this.#remote.advance();
  }

  /** Is everything decided on the spot? */
  get local(): boolean {
    return this.#composition().gates !== undefined;
  }

  /** The first in line. */
  get first(): Waiter | undefined {
    return this.#first;
  }

  /** Takes somebody out of the line, and does not look who is next. */
  remove(waiter: Waiter): void {
    const { previous, next } = waiter;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    waiter.previous = undefined;
    waiter.next = undefined;
    this.#length -= 1;
  }

  /** Why somebody who comes now would have to wait. */
  #refuse(gates: readonly Member<Gate>[], weights: Weights, clock: Clock, now: number): Refusal | undefined {
    if (this.#ask(gates, weights, clock, now, NEWCOMER) && this.#length === 0) return undefined;
    const blocker = this.#blocker ?? this.#heldBy;
    const wait = this.#blocker === undefined ? this.#heldUntil - now : this.#wait;
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
      const ahead = gate.firstBlocked;
      const behind = ahead !== undefined && ahead !== this && ahead.firstOrder < order;
      const wait = both(
        this.#wait,
        behind ? WHEN_RELEASED : gate.wait(gate.timeAt(clock, now), weightFor(weights, member)),
      );
      if (wait === this.#wait) continue;
      this.#wait = wait;
      this.#blocker = gate;
    }
    return this.#blocker === undefined;
  }

  /** The first in line waits at `gate`, for a release or for the time to come. */
  #hold(gate: Gate, now: number, clock: Clock): void {
    if (this.#heldBy !== gate) {
      this.#free();
      this.#heldBy = gate;
      gate.block(this);
      gate.refused(now);
    }
    const until = this.#wait === WHEN_RELEASED ? WHEN_RELEASED : clock.now() + this.#wait;
    if (this.#cancelTimer !== undefined && until === this.#heldUntil) return;
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#heldUntil = until;
    if (until === WHEN_RELEASED) return;
    this.#cancelTimer = clock.after(this.#wait, () => {
      this.#cancelTimer = undefined;
      this.advance();
    });
  }

  #free(): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    this.#heldBy?.unblock(this);
    this.#heldBy = undefined;
  }
}

/** Every member takes, in one step. */
function take(ticket: Ticket, weights: Weights, gates: readonly Member<Gate>[], clock: Clock, now: number): void {
  if (gates.length === 1) {
    const only = gates[0]!;
    ticket.hold(gates, only.part.take(now, weightFor(weights, only)), weights);
    return;
  }
  const tokens: unknown[] = [];
  for (let i = 0; i < gates.length; i++) {
    const member = gates[i]!;
    const { part } = member;
    tokens.push(member.takes ? part.take(part.timeAt(clock, now), weightFor(weights, member)) : undefined);
  }
  ticket.hold(gates, tokens, weights);
}
