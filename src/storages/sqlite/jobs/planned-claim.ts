import type { ClaimRules } from "../../../limits/claim-rules.ts";
import type { LimitRule } from "../../../limits/rule.ts";
import { claimantOf, waitOfOthers } from "../../../limits/starved.ts";
import { NEVER, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { Claim, ClaimRequest } from "../../../storage/job-storage.ts";
import { Allowance } from "../../../storage/step-bytes.ts";
import { ClaimLimits } from "../../../planner/claim-limits.ts";
import { planClaim, type ClaimPlan } from "../../../planner/plan-claim.ts";
import { type Unplanned, type WakeUp, wakeUpOf } from "../../../planner/wake-up.ts";
import { groupOf } from "../limits/groups.ts";
import { firstClosed, gateTypes, openDue } from "../limits/gates.ts";
import { SqliteKeys } from "../limits/keys.ts";
import type { Step } from "../step.ts";
import { comingDue } from "./due.ts";
import { ClaimLanes } from "./claim-lanes.ts";
import { isOpen } from "./ready-lanes.ts";
import { FirstLanes } from "./many-types.ts";
import { planMany } from "./plan-many.ts";
import type { OpenTypes } from "./open-types.ts";
import { writeDown } from "./starting.ts";

const NOTHING = { more: false, nextInMs: null, blockedBy: null };

/** More types than this are many to ask for. */
const MANY_ASKED = 64;

interface Planned {
  readonly lanes: ClaimLanes;
  readonly plan: ClaimPlan;
}

/** A claim that goes by the planner: under limits that differ for its jobs, or over lanes with keys. */
class PlannedClaim {
  readonly #step: Step;
  readonly #types: OpenTypes;
  readonly #rules: ClaimRules;
  readonly #writes: boolean;
  readonly #request: ClaimRequest;
  #keys: SqliteKeys;
  #limits: ClaimLimits;
  /** The lanes in the order of their first jobs, where many types wait. */
  #first: FirstLanes | undefined;
  /** A limit was looked at for which starts are not kept long enough. */
  #unprepared = false;

  /** `writes`: limits are prepared to keep what they need. */
  constructor(step: Step, request: ClaimRequest, types: OpenTypes, rules: ClaimRules, writes: boolean) {
    this.#step = step;
    this.#types = types;
    this.#rules = rules;
    this.#writes = writes;
    this.#request = request;
    this.#first = types.keyed || types.asked?.length === 1 ? undefined : FirstLanes.of(step, types.queue);
    [this.#keys, this.#limits] = this.#begin();
  }

  /** Keys and limits of which nothing is charged yet. */
  #begin(): [SqliteKeys, ClaimLimits] {
    const { queue } = this.#types;
    const keys = new SqliteKeys(this.#step, claimantOf(this.#request), this.#request.grantTtlMs);
    keys.mayStart = (of) => of.queue === queue && this.#types.has(of.type);
    const look = (rule: LimitRule, group: string | null) => {
      const key = keys.key(rule, group);
      if (this.#writes) key.prepare();
      else if (!rule.byGroup && key.unprepared) this.#unprepared = true;
      return key;
    };
    // Limits of some types are looked at when a job of these is.
    for (const rule of this.#rules.forAll) if (!rule.byGroup) look(rule, null);
    return [keys, new ClaimLimits(this.#rules, look)];
  }

  /** Something has to be written: starts are not kept long enough for a limit that was looked at, or one refused a job (`SqliteKeys`). */
  get unwritten(): boolean {
    return this.#unprepared || this.#keys.areUnmarked;
  }

  /** What limits have refused is woken up by a release. */
  mark(): void {
    this.#keys.mark();
  }

  get othersWaitMs(): number {
    return this.#keys.othersWaitMs;
  }

  planClaim(wanted: Pick<ClaimRequest, "max" | "maxBytes">): Planned {
    if (this.#first !== undefined) {
      const planned = this.#planMany(this.#first, wanted);
      if (planned !== undefined) return planned;
      this.#first = undefined;
      [this.#keys, this.#limits] = this.#begin();
    }
    const lanes = new ClaimLanes(this.#step, this.#types, this.#rules, this.#keys, wanted.max);
    const types = this.#rules.blocks ? this.#types.open : [...this.#types.candidates()];
    const plan = planClaim(types, lanes, this.#limits, new Allowance(wanted));
    if (this.#rules.blocks) this.#closeFull(lanes);
    return { lanes, plan };
  }

  #planMany(first: FirstLanes, wanted: Pick<ClaimRequest, "max" | "maxBytes">): Planned | undefined {
    const [types, rules, keys, limits] = [this.#types, this.#rules, this.#keys, this.#limits];
    const lanes = new ClaimLanes(this.#step, types, rules, keys, wanted.max, first);
    const open = this.#rules.blocks ? gateTypes(this.#step, types.queue, true) : [];
    const atGates = open.filter((type) => types.has(type));
    const plan = planMany({ first, lanes, types, rules, keys, limits, atGates }, wanted);
    if (plan === undefined) return undefined;
    if (this.#rules.blocks) this.#closeFull(lanes);
    return { lanes, plan };
  }

  /**
   * Lanes that took the last of a key wait for it from now on. The next claim would find that out, and write all that is written of
   * them once more.
   */
  #closeFull(lanes: ClaimLanes): void {
    for (const lane of lanes.started.map((one) => one.lane)) {
      if (!isOpen(lane) || this.#limits.weighs(lane.type)) continue;
      const decision = this.#limits.ask(lane.type, lane, null, lane.priority);
      if (decision.granted || decision.wait === NEVER || !decision.by.rule.byGroup || decision.by.rule.paused) continue;
      // What is held is mostly given back before the lane has its turn again.
      if (decision.wait === WHEN_RELEASED) continue;
      lanes.block(lane, decision.wait, decision.by, 0);
    }
  }

  /** Is there a job that has come due, is not in its lane yet, and may start? */
  get anyDue(): boolean {
    const { jobs, more } = comingDue(this.#step, this.#types.queue);
    const due = jobs.filter(({ due_at: at, type }) => at <= this.#step.now && this.#types.has(type));
    if (due.some(({ type }) => this.#limits.weighs(type) || this.#limits.earliest(type).wait === 0)) return true;
    return more && jobs.at(-1)!.due_at <= this.#step.now;
  }

  /** What comes after a claim. */
  wakeUpOf(plan: ClaimPlan): WakeUp {
    const { now } = this.#step;
    const waiting = this.#closed();
    const { jobs, more } = comingDue(this.#step, this.#types.queue);
    for (const { type, due_at: at } of jobs) {
      if (this.#types.has(type)) waiting.push({ type, wait: at - now, by: null });
    }
    // Of the jobs behind them, one that no limit blocks may come due.
    const latest = more ? Math.max(0, jobs.at(-1)!.due_at - now) : WHEN_RELEASED;
    return wakeUpOf(plan, this.#limits, waiting, latest);
  }

  /** Of each type the closed gate that opens first. */
  #closed(): Unplanned[] {
    if (!this.#rules.blocks) return [];
    const types = this.#atClosedGates().filter((type) => this.#types.has(type));
    return types.flatMap((type) => firstClosed(this.#step, this.#types.queue, type) ?? []);
  }

  /** The types of which lanes may stand at closed gates. Each is looked up: of many that are asked for, only those that do. */
  #atClosedGates(): readonly string[] {
    const { queue, asked } = this.#types;
    return asked !== null && asked.length <= MANY_ASKED ? asked : gateTypes(this.#step, queue, false);
  }

  openGates(): void {
    if (!this.#rules.blocks) return;
    openDue(this.#step, this.#types.queue, this.#atClosedGates(), (name, grp) => {
      const rule = this.#rules.all.find((one) => one.name === name);
      if (rule === undefined) return;
      const key = this.#keys.key(rule, groupOf(grp));
      key.prepare();
      void key.heads;
    });
  }

  /** Are there closed gates whose instant has come? */
  get anyRipe(): boolean {
    return this.#closed().some(({ wait }) => wait === 0);
  }
}

export function claimPlanned(
  step: Step,
  request: ClaimRequest,
  types: OpenTypes,
  rules: ClaimRules,
): Omit<Claim, "stale"> {
  if (types.paused) return { jobs: [], ...NOTHING };
  const planned = new PlannedClaim(step, request, types, rules, true);
  planned.openGates();
  const { lanes, plan } = planned.planClaim(request);
  const { jobs, grant } = lanes.changed ? writeDown(step, request, lanes) : { jobs: [], grant: undefined };
  const ahead = planned.wakeUpOf({ ...plan, more: plan.more || lanes.othersMayLook });
  planned.mark();
  return { jobs, ...ahead, ...waitOfOthers(planned.othersWaitMs), ...(grant !== undefined && { grant }) };
}

/** The same without any lock, where it takes nothing. Undefined: there is something to do. */
export function glancePlanned(
  step: Step,
  request: ClaimRequest,
  types: OpenTypes,
  rules: ClaimRules,
): Omit<Claim, "stale"> | undefined {
  if (types.paused) return { jobs: [], ...NOTHING };
  const planned = new PlannedClaim(step, request, types, rules, false);
  if (planned.unwritten || planned.anyDue || planned.anyRipe) return undefined;
  const { lanes, plan } = planned.planClaim({ max: 0 });
  if (lanes.changed || (plan.more && request.max > 0)) return undefined;
  const wakeUp = planned.wakeUpOf(plan);
  return planned.unwritten ? undefined : { jobs: [], ...wakeUp, ...waitOfOthers(planned.othersWaitMs) };
}
