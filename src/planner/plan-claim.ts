import { type Charge, labelOf } from "../limits/rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import { byTurn, type Lane } from "./turns.ts";
import type { Decision, LimitKey, ClaimLimits, KeyCharge } from "./claim-limits.ts";

/** A lane that a claim may take from. */
export interface ReadyLane extends Lane {
  readonly type: string;
}

/** The job that is next in a lane. */
export interface Head {
  readonly dueAt: number;
  readonly seq: number;
  readonly weights: Readonly<Record<string, number>> | null;
  readonly data: string;
}

/** How many jobs, and how much of their data, a claim may still start. */
export interface Allowance {
  /** May a job with this data start? If so it is counted as started. */
  take(data: string): boolean;
}

/** What a claim walks over: the lanes of a storage, as they are after each step that it took. */
export interface LaneSource<L extends ReadyLane> {
  /** The ready lane of this type whose turn it is; undefined: there is none. A lane that is blocked is not ready. */
  first(type: string): L | undefined;
  /** Ready lanes of its priority and group, of the types that the claim may take; it is one of them. */
  unit(lane: L): readonly L[];
  /** Who is next in it; undefined: nobody, however many were counted. The lane is not ready then. */
  head(lane: L): Head | undefined;
  /** The head of the lane starts, and its unit has its turn. */
  start(lane: L, charges: readonly KeyCharge[]): void;
  /**
   * Its group is full, or its head too heavy for what is left of a limit: the lane is not ready for so long
   * (`WHEN_RELEASED`: until something is given back).
   */
  block(lane: L, wait: Wait, by: LimitKey): void;
  /** The head of the lane can never start under this limit: it ends. */
  refuse(lane: L, decision: Decision & { readonly granted: false }): void;
}

/** What a planClaim found out beside the jobs that it started. */
export interface ClaimPlan {
  readonly started: number;
  /** There is a job that could start at once; or nobody has looked far enough to tell (`cutShort`). */
  readonly more: boolean;
  /** The limit that will be first to let a waiting job start, of those that keep one back; and when. */
  readonly blockedBy: string | null;
  readonly nextIn: Wait;
  /** It gave up: too much was in the way for one claim. */
  readonly cutShort: boolean;
}

/** So many lanes are blocked, and heads refused for good, before a claim ends: then another one goes on. */
const PATIENCE = 1_000;

const ONE: Charge = { weight: 1, slots: 1 };

/** What keeps jobs back, and for how long. */
interface Refused {
  readonly by: LimitKey;
  readonly wait: Wait;
}

/**
 * Starts as many jobs as it is allowed: by priority, then by turns, then as they came due, each with all of its limits or not at
 * all. What a limit keeps back is passed over whole: a type, or a lane.
 */
export function planClaim<L extends ReadyLane>(
  types: readonly string[],
  lanes: LaneSource<L>,
  limits: ClaimLimits,
  allowance: Allowance,
): ClaimPlan {
  const open = new Set(types);
  /** Types that are passed over since a limit that is not by group keeps one of them back. */
  const closed = new Map<string, Refused>();
  /** Of each type that has lanes whose group is full: the one that has room first. */
  const blocked = new Map<string, Refused>();
  let started = 0;
  let vain = 0;
  const answer = (refused: Iterable<Refused>, more: boolean, cutShort = false): ClaimPlan => {
    let first: Refused | null = null;
    for (const one of refused) if (first === null || one.wait < first.wait) first = one;
    const blockedBy = first === null ? null : labelOf(first.by.rule.name, first.by.group);
    return { started, more, blockedBy, nextIn: first === null ? WHEN_RELEASED : first.wait, cutShort };
  };
  const block = (lane: L, { by, wait }: Refused): void => {
    lanes.block(lane, wait, by);
    limits.close(by, wait);
    const least = blocked.get(lane.type);
    if (least === undefined || wait < least.wait) blocked.set(lane.type, { by, wait });
  };
  while (vain < PATIENCE) {
    const next = nextLane(open, lanes);
    if (next === undefined) break;
    const lane = earliest(open, lanes, next);
    const head = lane === undefined ? undefined : lanes.head(lane);
    if (lane === undefined || head === undefined) {
      vain += 1;
      continue;
    }
    const decision = limits.ask(lane.type, lane, head.weights, lane.priority);
    if (decision.granted) {
      if (!allowance.take(head.data)) return answer([...closed.values(), ...blocked.values()], true);
      limits.take(decision.charges);
      lanes.start(lane, decision.charges);
      started += 1;
      continue;
    }
    if (decision.wait === NEVER) {
      vain += 1;
      lanes.refuse(lane, decision);
    } else if (isForOneGroup(decision)) {
      vain += 1;
      block(lane, decision);
    } else {
      // One that is too heavy is remembered, so that others who claim do not take what it waits for.
      if (isTooHeavy(decision)) block(lane, decision);
      for (const type of decision.by.rule.types ?? [...open]) if (open.delete(type)) closed.set(type, decision);
    }
  }
  // Nothing starts any more: what was taken since a job was refused may keep it back for longer.
  const refused: Refused[] = [];
  for (const [type, closing] of closed) {
    while (vain < PATIENCE) {
      const lane = lanes.first(type);
      if (lane === undefined) break;
      const head = lanes.head(lane);
      const decision = head === undefined ? undefined : limits.ask(type, lane, head.weights, lane.priority);
      if (decision !== undefined && (decision.granted || (decision.wait !== NEVER && !isForOneGroup(decision)))) {
        refused.push(decision.granted ? closing : decision);
        break;
      }
      vain += 1;
      if (decision?.wait === NEVER) lanes.refuse(lane, decision);
      else if (decision !== undefined) block(lane, decision);
    }
  }
  for (const [type, one] of blocked) {
    const { wait, by } = limits.earliest(type);
    refused.push(by !== null && wait > one.wait ? { by, wait } : one);
  }
  return vain < PATIENCE ? answer(refused, false) : answer(refused, true, true);
}

/** Is only its group in the way? Of a limit that is stopped by hand no group starts anything. */
function isForOneGroup({ by: { rule } }: Refused): boolean {
  return rule.byGroup && !rule.paused;
}

/** Might a lighter one start before it? Who waits for something to be given back may wait for more than others do. */
function isTooHeavy({ by, wait, charge }: Decision & { readonly granted: false }): boolean {
  if (by.rule.weight === null || by.rule.paused) return false;
  return by.wait(ONE) !== wait || (wait === WHEN_RELEASED && Math.max(charge.weight, charge.slots) > 1);
}

/** The lane that speaks for the unit whose turn it is: the one that was served the longest ago. */
function nextLane<L extends ReadyLane>(open: Set<string>, lanes: LaneSource<L>): L | undefined {
  let next: L | undefined;
  for (const type of open) {
    const lane = lanes.first(type);
    if (lane === undefined) open.delete(type);
    else if (next === undefined || byTurn(lane, next) < 0) next = lane;
  }
  return next;
}

/** Of the lanes of a unit the one whose head starts next. */
function earliest<L extends ReadyLane>(open: ReadonlySet<string>, lanes: LaneSource<L>, lane: L): L | undefined {
  let first: { lane: L; head: Head } | undefined;
  for (const one of lanes.unit(lane)) {
    const head = open.has(one.type) ? lanes.head(one) : undefined;
    if (head === undefined) continue;
    if (
      first === undefined ||
      head.dueAt - first.head.dueAt < 0 ||
      (head.dueAt === first.head.dueAt && head.seq < first.head.seq)
    ) {
      first = { lane: one, head };
    }
  }
  return first?.lane;
}
