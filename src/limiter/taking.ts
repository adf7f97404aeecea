import type { Gate } from "./gate.ts";
import type { CheckedPart, Part, RemotePart } from "./part.ts";

/** One part of what a line asks for. */
export interface Member<P extends Part = AnyPart> {
  readonly part: P;
  /** Which of the weights of a request apply, the largest of them: nested wrappers bring a limiter and a weight each. */
  readonly groups: number[];
  /** False where a member before it writes the same starts: then this one is asked, but nothing is taken. */
  readonly takes: boolean;
  /** Does it matter to it at what instant a start is called? */
  readonly timed: boolean;
}

export type AnyPart = Gate | RemotePart | CheckedPart;

/** How much a request asks for: one weight for all, or one per group. A group that is left out has not said anything. */
export type Weights = number | readonly (number | undefined)[];

/** Nobody has said how much: that is one, or what a shared limit estimates. */
export const UNSAID: Weights = [];

export function weightFor(weights: Weights, member: Member): number {
  if (typeof weights === "number") return weights;
  if (weights === UNSAID) return 1;
  let heaviest = 0;
  for (const group of member.groups) heaviest = Math.max(heaviest, weights[group] ?? 1);
  return heaviest;
}

/** Has anybody said how much this member is asked for? */
export function isSaid(weights: Weights, member: Member): boolean {
  return typeof weights === "number" || member.groups.some((group) => weights[group] !== undefined);
}

/**
 * What was taken: by whom, what each of them gave for it (of a single member, not in an array), and how much. These
 * three are passed along as they are where an object for every start would be felt.
 */
export type Tokens = unknown;

/** What was taken, and from whom. */
export interface Taken {
  readonly members: readonly Member[];
  readonly tokens: Tokens;
}

function tokenOf(members: readonly Member[], tokens: Tokens, i: number): unknown {
  return members.length === 1 ? tokens : (tokens as readonly unknown[])[i];
}

/**
 * The work has been called just now: limits that go by time count from here, not from the decision before. Read after the call,
 * so whatever came in between (a garbage collection, a slow first call), the calls themselves stay within the limit.
 */
export function tellCalled(members: readonly Member[], tokens: Tokens): void {
  for (let i = 0; i < members.length; i++) {
    const { part, timed } = members[i]!;
    if (!timed) continue;
    const token = tokenOf(members, tokens, i);
    if (part.kind === "gate") part.called(token, part.clock.now());
    else if (part.kind === "remote") part.called(token);
  }
}

/** Was something of it granted too long ago to be used? Then it is given back, and never called. */
export function isLate(members: readonly Member[], tokens: Tokens): boolean {
  return members.some(
    ({ part, takes }, i) => takes && part.kind === "remote" && part.isLate(tokenOf(members, tokens, i)),
  );
}

/** The work ended. A promise only where a part must be told by one. */
export function release(members: readonly Member[], tokens: Tokens, weights: Weights): Promise<void> | void {
  return tellAll(RELEASE, members, tokens, weights);
}

/** The work never started. */
export function cancel(members: readonly Member[], tokens: Tokens, weights: Weights): Promise<void> | void {
  return tellAll(CANCEL, members, tokens, weights);
}

/** The work used `used`, of one group or of all. After a release this still corrects what stays counted. */
export function settle(members: readonly Member[], tokens: Tokens, used: number, group?: number): Promise<void> | void {
  return tellAll(SETTLE, members, tokens, used, group);
}

type Tell = (part: AnyPart, token: unknown, weight: number) => Promise<void> | void;

const RELEASE: Tell = (part, token, weight) => part.release(token, weight);
const CANCEL: Tell = (part, token, weight) => part.cancel(token, weight);
const SETTLE: Tell = (part, token, used) => part.settle(token, used);

/** Everyone is told, whoever fails; then the first failure is thrown. */
function tellAll(
  tell: Tell,
  members: readonly Member[],
  tokens: Tokens,
  weights: Weights,
  group?: number,
): Promise<void> | void {
  let pending: Promise<void>[] | undefined;
  for (let i = 0; i < members.length; i++) {
    const member = members[i]!;
    if (!member.takes || (group !== undefined && !member.groups.includes(group))) continue;
    const done = tell(member.part, tokenOf(members, tokens, i), weightFor(weights, member));
    if (done !== undefined) (pending ??= []).push(tellOthers(done, member.part));
  }
  if (pending !== undefined) return firstFailure(pending);
}

async function tellOthers(done: Promise<void>, part: AnyPart): Promise<void> {
  await done;
  part.wakeUps.notify();
}

async function firstFailure(pending: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(pending)) {
    if (outcome.status === "rejected") throw outcome.reason;
  }
}
