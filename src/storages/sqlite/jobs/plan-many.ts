import type { ClaimRules } from "../../../limits/claim-rules.ts";
import { ONE } from "../../../limits/rule.ts";
import { NEVER } from "../../../limits/wait.ts";
import { type ClaimLimits, type Decision, isForOneGroup, labelOfKey } from "../../../planner/claim-limits.ts";
import { type ClaimPlan, planClaim } from "../../../planner/plan-claim.ts";
import type { ClaimRequest } from "../../../storage/job-storage.ts";
import { Allowance } from "../../../storage/step-bytes.ts";
import type { SqliteKeys } from "../limits/keys.ts";
import type { ClaimLanes, Closing } from "./claim-lanes.ts";
import type { ClaimLane } from "./ready-lanes.ts";
import { type FirstLanes, PASSED_OVER } from "./many-types.ts";
import type { OpenTypes } from "./open-types.ts";

/** No more than this is read at once. */
const PAGE = 1_000;

const WITHOUT_GROUP = { group: null };

/** A claim over lanes of many types, under limits, in a queue without groups. */
export interface ManyTypes {
  readonly first: FirstLanes;
  readonly lanes: ClaimLanes;
  readonly types: OpenTypes;
  readonly rules: ClaimRules;
  readonly keys: SqliteKeys;
  readonly limits: ClaimLimits;
  /** Types of which lanes stand at open gates. */
  readonly atGates: readonly string[];
}

/**
 * Plans over the lanes that have the first jobs, as many as jobs may start, and one more; then over twice as many, and so on, until
 * enough jobs start or all lanes are read. A lane is not ready while its first job comes after those of lanes that were not read, so
 * the order is the same as if all types were looked at. Undefined: too many lanes come first that are not asked for.
 */
export function planMany(claim: ManyTypes, wanted: Pick<ClaimRequest, "max" | "maxBytes">): ClaimPlan | undefined {
  const { first, lanes, types, limits } = claim;
  const allowance = new Allowance(wanted);
  const closed = new ClosedTypes(claim);
  const known = new Set(claim.atGates);
  let passedOver = 0;
  for (let count = wanted.max + 1; ; count *= 2) {
    for (const row of first.read(Math.min(PAGE, count))) {
      if (!types.has(row.type)) passedOver += 1;
      else if (closed.refuses(row.type)) closed.note(row.type, undefined);
      else {
        lanes.add(row);
        known.add(row.type);
      }
    }
    if (passedOver > PASSED_OVER) return undefined;
    const plan = planClaim([...known], lanes, limits, allowance);
    if (plan.more) return plan;
    for (const type of known) {
      if (!closed.has(type)) continue;
      known.delete(type);
      const lane = lanes.firstKnown(type);
      if (lane !== undefined) closed.note(type, lane);
    }
    const next = closed.next(plan);
    if (first.whole || closed.isForAll(next)) return withHeads(claim, next, allowance);
  }
}

/** A limit that refuses a job may refuse it for a heavy head, which starts now, though its job comes after some that were not read. */
function withHeads({ lanes, limits, rules, atGates }: ManyTypes, plan: ClaimPlan, allowance: Allowance): ClaimPlan {
  if (rules.all.every(({ weight }) => weight === null)) return plan;
  const types = atGates.filter((type) => (lanes.firstKnown(type)?.heavy ?? null) !== null);
  if (types.length === 0) return plan;
  lanes.asksHeads = true;
  const heads = planClaim(types, lanes, limits, allowance);
  return heads.more || heads.nextIn < plan.nextIn ? heads : plan;
}

/** The types of a claim that limits for all groups have closed. They stay closed until its end. */
class ClosedTypes {
  readonly #claim: ManyTypes;
  /** All types of a kind run under the same limits. */
  readonly #kinds = new Set<unknown>();
  /** Of each kind a type that was passed over: jobs of it wait. */
  readonly #passedOver = new Map<unknown, string>();
  /** The first lanes of types that were looked at. */
  readonly #lanes: ClaimLane[] = [];

  constructor(claim: ManyTypes) {
    this.#claim = claim;
  }

  has(type: string): boolean {
    const kind = this.#claim.limits.kindOf(type);
    if (this.#kinds.has(kind)) return true;
    if (this.#closing(type) === undefined) return false;
    this.#kinds.add(kind);
    return true;
  }

  /**
   * Does a lane of this type, which comes after all that were read before, wait for a limit that is full? Then the limit is closed, as it is
   * when the planner asks for such a lane. How heavy a job is says the planner.
   */
  refuses(type: string): boolean {
    const { limits, lanes } = this.#claim;
    if (this.has(type)) return true;
    const decision = limits.weighs(type) ? undefined : limits.ask(type, WITHOUT_GROUP, null, 0);
    if (decision?.granted !== false || isForOneGroup(decision.by.rule)) return false;
    lanes.closed.set(decision.by.rule, decision);
    return this.has(type);
  }

  /** Jobs of this type, which is closed, wait. `lane`: where, if it was looked at. */
  note(type: string, lane: ClaimLane | undefined): void {
    if (lane !== undefined) this.#lanes.push(lane);
    else this.#passedOver.set(this.#claim.limits.kindOf(type), type);
  }

  /** The plan with the wake-up time of these types. */
  next(plan: ClaimPlan): ClaimPlan {
    const { limits, lanes } = this.#claim;
    let { blockedBy, nextIn } = plan;
    const see = (type: string, decision: Decision | undefined): void => {
      const refused = decision?.granted === false && decision.wait !== NEVER ? decision : this.#closing(type);
      if (refused === undefined || (blockedBy !== null && refused.wait >= nextIn)) return;
      blockedBy = labelOfKey(refused.by);
      nextIn = refused.wait;
    };
    for (const lane of this.#lanes) {
      const head = lanes.head(lane);
      if (head !== undefined) see(lane.type, limits.ask(lane.type, lane, head.weights, lane.priority));
    }
    // It is not known how heavy these are. They start after the job that was refused.
    for (const type of this.#passedOver.values()) {
      see(type, limits.weighs(type) ? undefined : limits.ask(type, WITHOUT_GROUP, null, 0));
    }
    return { ...plan, blockedBy, nextIn };
  }

  /** Is a limit for all types full until then, so that lanes which were not read change nothing? */
  isForAll({ blockedBy, nextIn }: ClaimPlan): boolean {
    const { rules, keys, lanes } = this.#claim;
    if (blockedBy === null) return false;
    return rules.forAll.some((rule) => {
      const full = rule.byGroup || rule.weight !== null ? 0 : keys.key(rule, null).wait(ONE);
      const wait = Math.max(full, lanes.closed.get(rule)?.wait ?? 0);
      return wait > 0 && nextIn <= wait;
    });
  }

  /** A limit of this type that has refused a job. */
  #closing(type: string): Closing | undefined {
    const { lanes, rules } = this.#claim;
    for (const rule of rules.of(type)) {
      const closing = lanes.closed.get(rule);
      if (closing !== undefined) return closing;
    }
    return undefined;
  }
}
