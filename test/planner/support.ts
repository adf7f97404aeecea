import { RulesInForce } from "../../src/limits/claim-rules.ts";
import type { Charge, LimitRule } from "../../src/limits/rule.ts";
import { Allowance } from "../../src/storage/step-bytes.ts";
import { NEVER, type Wait } from "../../src/limits/wait.ts";
import { byTurn } from "../../src/planner/turns.ts";
import { type Decision, type LimitKey, ClaimLimits, type KeyCharge } from "../../src/planner/claim-limits.ts";
import { type LaneSource, type Head, planClaim, type ClaimPlan, type ReadyLane } from "../../src/planner/plan-claim.ts";

export interface ToyJob extends Head {
  readonly id: string;
}

/** A lane whose jobs are an array. */
export interface ToyLane extends ReadyLane {
  turn: number;
  waiting: number;
  readonly jobs: ToyJob[];
  blocked: boolean;
}

/** What is available under a key, as a number. After that it is full for `wait`. */
export class ToyKey implements LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly full: Wait;
  left: number;
  asked = 0;
  /** Of the head that asks. */
  since = Number.POSITIVE_INFINITY;

  constructor(rule: LimitRule, group: string | null, left: number, full: Wait = 100) {
    this.rule = rule;
    this.group = group;
    this.left = left;
    this.full = full;
  }

  wait({ weight }: Charge): Wait {
    this.asked += 1;
    if (weight > (this.rule.quota.max ?? Number.POSITIVE_INFINITY)) return NEVER;
    return weight <= this.left ? 0 : this.full;
  }

  waitForOwnHeads(): Wait {
    return 0;
  }

  take({ weight }: Charge): void {
    this.left -= weight;
  }
}

/** Lanes in an array, and what a plan did to them. */
export class ToyLanes implements LaneSource<ToyLane> {
  readonly lanes: ToyLane[] = [];
  readonly started: { readonly id: string; readonly charges: readonly KeyCharge[] }[] = [];
  readonly refused: string[] = [];
  readonly #types = new Map<string, ToyLane[]>();
  looks = 0;
  #turns = 0;
  #seq = 0;

  add(
    id: string,
    said: { type?: string; priority?: number; group?: string | null; dueAt?: number; n?: number } = {},
  ): void {
    const { type = "t", priority = 0, group = null, dueAt = 0, n } = said;
    let lane = this.lanes.find((one) => one.type === type && one.priority === priority && one.group === group);
    if (lane === undefined) {
      lane = { id: this.lanes.length, type, priority, group, turn: 0, waiting: 0, jobs: [], blocked: false };
      this.lanes.push(lane);
      this.#types.set(type, [...(this.#types.get(type) ?? []), lane]);
    }
    lane.jobs.push({ id, dueAt, seq: this.#seq++, weights: n === undefined ? null : { n }, data: "" });
    lane.waiting += 1;
  }

  #ready(lanes: readonly ToyLane[]): ToyLane[] {
    return lanes.filter((lane) => lane.jobs.length > 0 && !lane.blocked).toSorted(byTurn);
  }

  first(type: string): ToyLane | undefined {
    this.looks += 1;
    return this.#ready(this.#types.get(type) ?? [])[0];
  }

  unit({ priority, group }: ToyLane): readonly ToyLane[] {
    return this.#ready(this.lanes.filter((lane) => lane.priority === priority && lane.group === group));
  }

  head(lane: ToyLane): Head | undefined {
    this.looks += 1;
    return lane.jobs[0];
  }

  start(lane: ToyLane, charges: readonly KeyCharge[]): void {
    this.started.push({ id: this.#shift(lane), charges });
    this.#turns += 1;
    for (const one of this.lanes)
      if (one.priority === lane.priority && one.group === lane.group) one.turn = this.#turns;
  }

  block(lane: ToyLane): void {
    lane.blocked = true;
  }

  refuse(lane: ToyLane, _leave: Decision): void {
    this.refused.push(this.#shift(lane));
  }

  #shift(lane: ToyLane): string {
    lane.waiting -= 1;
    return lane.jobs.shift()!.id;
  }
}

/** Plans under these keys: one for each limit, or for each group of it. */
export function planUnder(
  lanes: ToyLanes,
  keys: readonly ToyKey[],
  want: number,
  types?: readonly string[],
): ClaimPlan {
  const rules = [...new Set(keys.map(({ rule }) => rule))];
  const limits = new ClaimLimits(new RulesInForce(rules).of("q").forClaim(null, []), (rule, group) => {
    const found = keys.find((key) => key.rule === rule && key.group === group);
    if (found === undefined) throw new Error(`no key of ${rule.name} for ${String(group)}`);
    return found;
  });
  return planClaim(
    types ?? [...new Set(lanes.lanes.map(({ type }) => type))],
    lanes,
    limits,
    new Allowance({ max: want }),
  );
}
