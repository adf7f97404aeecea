import type { Gate, LimiterGate } from "./gate.ts";
import type { CheckedPart, Part, RemotePart } from "./part.ts";

/** One part of a line, with what applies to it. */
export interface Member<P extends Part = AnyPart> {
  readonly part: P;
  /** Which weights of a request apply; the largest of them counts. Nested wrappers each bring a limiter and a weight. */
  readonly groups: Set<number>;
  /** False where an earlier member records the same starts: then this one is checked, but not charged. */
  readonly takes: boolean;
  /** Does the instant at which a start is called matter to it? */
  readonly timed: boolean;
}

export type AnyPart = Gate | RemotePart | CheckedPart;
/** A part of a limiter, and not of a wrapped function alone. */
export type LimiterPart = LimiterGate | RemotePart | CheckedPart;

/** The weight of a request: one for all, or one per group. A missing group has the default weight. */
export type Weights = number | readonly (number | undefined)[];

/** No weight is given: it is one, or the estimate of a shared limit. */
export const DEFAULT_WEIGHT: Weights = [];

export function weightFor(weights: Weights, member: Member): number {
  if (typeof weights === "number") return weights;
  if (weights === DEFAULT_WEIGHT) return 1;
  let heaviest = 0;
  for (const group of member.groups) heaviest = Math.max(heaviest, weights[group] ?? 1);
  return heaviest;
}

/** Was a weight given for this member? */
export function isWeightGiven(weights: Weights, member: Member): boolean {
  return typeof weights === "number" || [...member.groups].some((group) => weights[group] !== undefined);
}

/**
 * What was charged: the members, the token of each (of a single member, not in an array), and the weights. These
 * three are passed separately where an object for every start would cost too much.
 */
export type Tokens = unknown;

/** The members that were charged, and their tokens. */
export interface Charged {
  readonly members: readonly Member[];
  readonly tokens: Tokens;
}

function tokenOf(members: readonly Member[], tokens: Tokens, i: number): unknown {
  return members.length === 1 ? tokens : (tokens as readonly unknown[])[i];
}

/**
 * The work has just been called: timed limits count from here, not from the decision. The clock is read after the call,
 * so whatever came in between (a garbage collection, a slow first call), the calls themselves stay within the limit.
 */
export function reportCalled(members: readonly Member[], tokens: Tokens): void {
  for (let i = 0; i < members.length; i++) {
    const { part, timed } = members[i]!;
    if (timed) part.called!(tokenOf(members, tokens, i));
  }
}

/** Was one of the grants made too long ago to be used? Then it is returned, and never called. */
export function isLate(members: readonly Member[], tokens: Tokens): boolean {
  return members.some(
    ({ part, takes }, i) => takes && part.kind === "remote" && part.isLate(tokenOf(members, tokens, i)),
  );
}

/** The work ended. */
export const release = /* @__PURE__ */ forCharged((part, token, weight) => part.release(token, weight));
/** The work never started. */
export const cancel = /* @__PURE__ */ forCharged((part, token, weight) => part.cancel(token, weight));
/** The work used so much, of one group or of all. After a release this still corrects what stays counted. */
export const settle = /* @__PURE__ */ forCharged((part, token, used) => part.settle(token, used));

/**
 * Does this for every member that was charged, whichever of them fail; then throws the first failure. Returns a promise only where a
 * part does.
 */
function forCharged(step: (part: AnyPart, token: unknown, weight: number) => Promise<void> | void) {
  return (members: readonly Member[], tokens: Tokens, weights: Weights, group?: number): Promise<void> | void => {
    let pending: Promise<void>[] | undefined;
    for (let i = 0; i < members.length; i++) {
      const member = members[i]!;
      if (!member.takes || (group !== undefined && !member.groups.has(group))) continue;
      const done = step(member.part, tokenOf(members, tokens, i), weightFor(weights, member));
      if (done !== undefined) (pending ??= []).push(done.then(() => member.part.wakeUps.notify()));
    }
    if (pending !== undefined) return firstFailure(pending);
  };
}

async function firstFailure(pending: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(pending)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
