import type { Gate } from "./gate.ts";
import type { CheckedPart, Part, RemotePart } from "./part.ts";

/** One part of what a line asks for. */
export interface Member<P extends Part = AnyPart> {
  readonly part: P;
  /** Which of the weights of a request applies: nested wrappers bring a limiter and a weight each. */
  readonly group: number;
  /** False where a member before it writes the same starts: then this one is asked, but nothing is taken. */
  readonly takes: boolean;
}

export type AnyPart = Gate | RemotePart | CheckedPart;

/** How much a request asks for: one weight for all, or one per group. */
export type Weights = number | readonly number[];

export function weightFor(weights: Weights, member: Member): number {
  return typeof weights === "number" ? weights : weights[member.group]!;
}

/** What one request holds, once granted. Gives it back at most once, whatever is called how often. */
export class Ticket {
  readonly weights: Weights;
  /** What it was granted by, and what each of them gave for it. */
  members: readonly Member[] = NONE;
  tokens: readonly unknown[] = NONE;
  #state: "open" | "released" | "cancelled" = "open";

  constructor(weights: Weights) {
    this.weights = weights;
  }

  /**
   * The work has been started just now: limits that go by time count from here, not from the decision a moment before.
   * So whatever came in between (a garbage collection, a slow first call), the calls themselves stay within the limit.
   */
  started(): void {
    const { members, tokens } = this;
    for (let i = 0; i < members.length; i++) {
      const { part, takes } = members[i]!;
      if (takes && part.kind === "gate" && part.timed) part.started(tokens[i], part.clock.now());
    }
  }

  /** The work ended. Returns a promise only where a part must be told by one. */
  release(): Promise<void> | void {
    if (this.#state !== "open") return;
    this.#state = "released";
    return this.#tell((part, token, weight) => part.release(token, weight));
  }

  /** The work never started. */
  cancel(): Promise<void> | void {
    if (this.#state !== "open") return;
    this.#state = "cancelled";
    return this.#tell((part, token, weight) => part.cancel(token, weight));
  }

  /** The work used `used`. After a release this still corrects what stays counted. */
  settle(used: number): Promise<void> | void {
    if (this.#state === "cancelled") return;
    return this.#tell((part, token) => part.settle(token, used));
  }

  /** Everyone is told, whoever fails; then the first failure is thrown. */
  #tell(tell: (part: Part, token: unknown, weight: number) => Promise<void> | void): Promise<void> | void {
    const { members, tokens, weights } = this;
    let pending: Promise<void>[] | undefined;
    for (let i = 0; i < members.length; i++) {
      const member = members[i]!;
      if (!member.takes) continue;
      const done = tell(member.part, tokens[i], weightFor(weights, member));
      if (done !== undefined) (pending ??= []).push(done.then(() => member.part.room.appeared()));
    }
    if (pending !== undefined) return firstFailure(pending);
  }
}

const NONE: readonly never[] = [];

async function firstFailure(pending: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(pending)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
