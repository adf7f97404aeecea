import type { Gate } from "./gate.ts";
import type { CheckedPart, Part, RemotePart } from "./part.ts";

/** One part of what a line asks for. */
export interface Member<P extends Part = AnyPart> {
  readonly part: P;
  /** Which of the weights of a request applies: nested wrappers bring a limiter and a weight each. */
  readonly group: number;
  /** False where a member before it writes the same starts: then this one is asked, but nothing is taken. */
  readonly takes: boolean;
  /** Does it matter to it at what instant a start happens? */
  readonly timed: boolean;
}

export type AnyPart = Gate | RemotePart | CheckedPart;

/** How much a request asks for: one weight for all, or one per group. */
export type Weights = number | readonly number[];

export function weightFor(weights: Weights, member: Member): number {
  return typeof weights === "number" ? weights : weights[member.group]!;
}

/** What one request holds, once granted. Gives it back at most once, whatever is called how often. */
export class Ticket {
  #state: "open" | "released" | "cancelled" = "open";
  #members: readonly Member[] = NONE;
  /** What each member gave for it; of a single member, not in an array. */
  #tokens: unknown = undefined;
  #weights: Weights = 1;

  /** Everything was taken. */
  hold(members: readonly Member[], tokens: unknown, weights: Weights): void {
    this.#members = members;
    this.#tokens = tokens;
    this.#weights = weights;
  }

  /**
   * The work has been started just now: limits that go by time count from here, not from the decision a moment before.
   * So whatever came in between (a garbage collection, a slow first call), the calls themselves stay within the limit.
   */
  started(): void {
    const members = this.#members;
    for (let i = 0; i < members.length; i++) {
      if (!members[i]!.timed) continue;
      const gate = members[i]!.part as Gate;
      gate.started(this.#token(i), gate.clock.now());
    }
  }

  /** The work ended. Returns a promise only where a part must be told by one. */
  release(): Promise<void> | void {
    if (this.#state !== "open") return;
    this.#state = "released";
    return this.#tell(RELEASE, 0);
  }

  /** The work never started. */
  cancel(): Promise<void> | void {
    if (this.#state !== "open") return;
    this.#state = "cancelled";
    return this.#tell(CANCEL, 0);
  }

  /** The work used `used`, of one group or of all. After a release this still corrects what stays counted. */
  settle(used: number, group?: number): Promise<void> | void {
    if (this.#state === "cancelled") return;
    return this.#tell(SETTLE, used, group);
  }

  #token(i: number): unknown {
    return this.#members.length === 1 ? this.#tokens : (this.#tokens as readonly unknown[])[i];
  }

  /** Everyone is told, whoever fails; then the first failure is thrown. */
  #tell(tell: Tell, used: number, group?: number): Promise<void> | void {
    const members = this.#members;
    let pending: Promise<void>[] | undefined;
    for (let i = 0; i < members.length; i++) {
      const member = members[i]!;
      if (!member.takes || (group !== undefined && member.group !== group)) continue;
      const done = tell(member.part, this.#token(i), weightFor(this.#weights, member), used);
      if (done !== undefined) (pending ??= []).push(done.then(() => member.part.room.appeared()));
    }
    if (pending !== undefined) return firstFailure(pending);
  }
}

type Tell = (part: Part, token: unknown, weight: number, used: number) => Promise<void> | void;

const RELEASE: Tell = (part, token, weight) => part.release(token, weight);
const CANCEL: Tell = (part, token, weight) => part.cancel(token, weight);
const SETTLE: Tell = (part, token, _weight, used) => part.settle(token, used);

const NONE: readonly never[] = [];

async function firstFailure(pending: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(pending)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
