import { ONE } from "../limits/rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../limits/wait.ts";
import { byTurn, type Lane } from "./turns.ts";
import {
  type ClaimLimits,
  type Decision,
  isForOneGroup,
  type KeyCharge,
  labelOfKey,
  type LimitKey,
  type Refused,
} from "./claim-limits.ts";

/** A lane that a claim may take from. */
export interface ReadyLane extends Lane {
  readonly type: string;
  /** Truthy if a key has refused its first job, or one that was first before, as a heavy head. */
  readonly heavy?: unknown;
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

/** The lanes that a claim plans over, as they are after each of its steps. */
export interface LaneSource<L extends ReadyLane> {
  /** The ready lane of this type whose turn it is; undefined: there is none. A lane that is blocked is not ready. */
  first(type: string): L | undefined;
  /** Ready lanes of its priority and group, of the types that the claim may take; it is one of them. */
  unit(lane: L): readonly L[];
  /** The next job of the lane; undefined: the lane is empty, whatever its count says. It is not ready then. */
  head(lane: L): Head | undefined;
  /** Starts the head of the lane. Its unit has had its turn. */
  start(lane: L, charges: readonly KeyCharge[]): void;
  /**
   * Its group is full, or its head is heavier than what is available: the lane is not ready for so long
   * (`WHEN_RELEASED`: until something is returned). `fits`: not 0, if the head is too heavy (`heavy-heads.ts`): then it fits after
   * so long, on its own.
   */
  block(lane: L, wait: Wait, by: LimitKey, fits: Wait): void;
  /** A limit for all groups refuses the head of the lane for so long: all types that it holds for are closed. */
  close?(lane: L, wait: Wait, by: LimitKey): void;
  /** The head of the lane can never start under this limit: it ends. */
  refuse(lane: L, decision: Decision & { readonly granted: false }): void;
}

/** The result of `planClaim`, beside the jobs that it started. */
export interface ClaimPlan {
  readonly started: number;
  /** There is a job that could start at once, or the plan ended before this was known (`cutShort`). */
  readonly more: boolean;
  /** Of the limits that refused a job, the one that grants it first; and when. */
  readonly blockedBy: string | null;
  readonly nextIn: Wait;
  /** The plan ended early, after `MAX_REFUSALS` lanes and heads were refused. */
  readonly cutShort: boolean;
}

/** After so many blocked lanes and dead heads a claim ends; the next claim continues. */
const MAX_REFUSALS = 1_000;

/**
 * Starts as many jobs as the allowance permits: by priority, then by turns, then in due order, each under all of its limits or not
 * at all. A refusal closes the whole type, or blocks the whole lane.
 */
export function planClaim<L extends ReadyLane>(
  types: readonly string[],
  lanes: LaneSource<L>,
  limits: ClaimLimits,
  allowance: Allowance,
): ClaimPlan {
  const open = new Set(types);
  /** Types closed by a limit that is not by group. */
  const closed = new Map<string, Refused>();
  /** For each type with blocked lanes: the refusal that ends first. */
  const blocked = new Map<string, Refused>();
  let started = 0;
  let refusals = 0;
  const answer = (refused: Iterable<Refused>, more: boolean, cutShort = false): ClaimPlan => {
    let first: Refused | null = null;
    for (const one of refused) if (first === null || one.wait < first.wait) first = one;
    const blockedBy = first && labelOfKey(first.by);
    return { started, more, blockedBy, nextIn: first?.wait ?? WHEN_RELEASED, cutShort };
  };
  const block = (lane: L, refused: Refused): void => {
    const { by, charge } = refused;
    const weighs = by.rule.weight !== null;
    // A job that waits only for heavy heads is none itself. Heads that come before these do not wait with it.
    const alone = weighs ? by.wait(charge) : 0;
    // Nor is one behind a head of its queue and type, where the limit is by group: such lanes wait at the gate of the key together until that
    // reservation ends, so that a release costs as much as where all jobs count for one.
    const behind = alone > 0 && isForOneGroup(by.rule) ? limits.waitForOwnHeads(by, lane) : 0;
    const [wait, fits] = behind > 0 ? [behind, 0] : [refused.wait, alone];
    limits.close(by, weighs ? fits : wait, lane);
    lanes.block(lane, wait, by, fits);
    const least = blocked.get(lane.type);
    if (least === undefined || wait < least.wait) blocked.set(lane.type, { by, wait, charge });
  };
  /** Ends a head that never fits, or blocks the lane of one whose group is full. False: the limit refuses all groups. */
  const passOver = (lane: L, decision: Decision & { readonly granted: false }): boolean => {
    if (decision.wait === NEVER) lanes.refuse(lane, decision);
    else if (isForOneGroup(decision.by.rule)) block(lane, decision);
    else return false;
    refusals += 1;
    return true;
  };
  /** Is the first job of the type a heavy head that starts now, or reserves nothing any more? The key that it waits for does not refuse it. */
  const passes = (type: string): boolean => {
    const lane = lanes.first(type);
    const head = lane?.heavy ? lanes.head(lane) : undefined;
    if (head === undefined) return false;
    const decision = limits.ask(type, lane!, head.weights, lane!.priority);
    return decision.granted || !Number.isFinite(decision.by.since) || decision.by.wait(decision.charge) === 0;
  };
  while (refusals < MAX_REFUSALS) {
    const next = nextLane(open, lanes);
    if (next === undefined) break;
    const lane = earliest(open, lanes, next);
    // A lane that a key refuses does not rank its unit, whether or not a claim has met the refusal before.
    const blocker = lane === next ? undefined : limits.blocker(next.type, next);
    if (blocker !== undefined && lanes.head(next) !== undefined) {
      refusals += 1;
      block(next, blocker);
      continue;
    }
    const head = lane === undefined ? undefined : lanes.head(lane);
    if (lane === undefined || head === undefined) {
      refusals += 1;
      continue;
    }
    const decision = limits.ask(lane.type, lane, head.weights, lane.priority);
    if (decision.granted) {
      if (!allowance.take(head.data)) return answer([...closed.values(), ...blocked.values()], true);
      limits.take(decision.charges);
      lanes.start(lane, decision.charges);
      started += 1;
    } else if (!passOver(lane, decision)) {
      // A head that is too heavy is recorded, so that other claims do not start jobs with what it waits for.
      const heavy = isTooHeavy(decision);
      if (heavy) block(lane, decision);
      else lanes.close?.(lane, decision.wait, decision.by);
      for (const type of decision.by.rule.types ?? [...open]) {
        if (!open.has(type) || ((heavy || type !== lane.type) && passes(type))) continue;
        open.delete(type);
        closed.set(type, decision);
      }
    }
  }
  // Nothing starts any more. Charges made after a refusal may lengthen its wait, so refused types are decided again.
  const refused: Refused[] = [];
  for (const [type, closing] of closed) {
    while (refusals < MAX_REFUSALS) {
      const lane = lanes.first(type);
      if (lane === undefined) break;
      const head = lanes.head(lane);
      if (head === undefined) {
        refusals += 1;
        continue;
      }
      const decision = limits.ask(type, lane, head.weights, lane.priority);
      if (!decision.granted && passOver(lane, decision)) continue;
      refused.push(decision.granted ? closing : decision);
      break;
    }
  }
  for (const [type, one] of blocked) {
    const general = limits.earliest(type);
    refused.push(general.by !== null && general.wait > one.wait ? general : one);
  }
  return refusals < MAX_REFUSALS ? answer(refused, false) : answer(refused, true, true);
}

/**
 * Could a lighter job start before it? A job that waits for a release may wait for more than others need, and so may one that waits already:
 * what delays all others alike now (spacing, a hold, an open breaker) may be over first.
 */
function isTooHeavy({ by, wait, charge }: Refused): boolean {
  if (by.rule.weight === null || by.rule.paused) return false;
  if (by.wait(ONE) !== wait) return true;
  return Math.max(charge.weight, charge.slots) > 1 && (wait === WHEN_RELEASED || Number.isFinite(by.since));
}

/** The lane that ranks first: of the unit whose turn it is, the lane served the longest ago. */
function nextLane<L extends ReadyLane>(open: Set<string>, lanes: LaneSource<L>): L | undefined {
  let next: L | undefined;
  for (const type of open) {
    const lane = lanes.first(type);
    if (lane === undefined) open.delete(type);
    else if (next === undefined || byTurn(lane, next) < 0) next = lane;
  }
  return next;
}

/** The lane of a unit whose head starts next. */
function earliest<L extends ReadyLane>(open: ReadonlySet<string>, lanes: LaneSource<L>, lane: L): L | undefined {
  const unit = lanes.unit(lane);
  let first: L | undefined;
  let earlier: Head | undefined;
  for (let i = 0; i < unit.length; i++) {
    const one = unit[i]!;
    const head = open.has(one.type) ? lanes.head(one) : undefined;
    if (head === undefined) continue;
    if (earlier !== undefined && (head.dueAt - earlier.dueAt || head.seq - earlier.seq) >= 0) continue;
    first = one;
    earlier = head;
  }
  return first;
}
