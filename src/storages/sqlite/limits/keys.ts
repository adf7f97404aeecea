import { availableNow, type KeyState, NO_SLOTS, type SlotsInUse } from "../../../limits/key-state.ts";
import { type Charge, chargeOf, type LimitRule, ONE, type Quota, quotaOf, takesSlots } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { LimitKey } from "../../../planner/claim-limits.ts";
import { type Asking, type HeavyHead, waitForHeads } from "../../../planner/heavy-heads.ts";
import { decideFor, type InspectedKey } from "../../../storage/inspected-key.ts";
import type { Step } from "../step.ts";
import { stateGrpOf } from "./groups.ts";
import { heavyHeads } from "./heavy-heads.ts";
import { SqliteLimitState } from "./limit-state.ts";
import { windowWait } from "./windows.ts";

/** From this number on starts share rows: by a thousandth of the window at most. */
const MANY = 1_000;

const AWAITED = "UPDATE sluice_limits SET awaited = 1 WHERE id = ?";

/** One key of a limit, as one step sees it. */
export class SqliteKey implements LimitKey, InspectedKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly quota: Quota;
  readonly limitState: SqliteLimitState;
  /** Every start takes slots. */
  readonly takesSlots: boolean;
  /** A start may be corrected when its group has long been idle: until its lease ends, the group is remembered. */
  readonly pins: boolean;
  readonly #step: Step;
  readonly #keys: SqliteKeys;
  #plain: boolean | undefined;
  #writes = false;
  #refused = false;
  #heavy: readonly HeavyHead[] | undefined;
  readonly windowWait: InspectedKey["windowWait"];

  constructor(step: Step, keys: SqliteKeys, rule: LimitRule, group: string | null) {
    this.rule = rule;
    this.group = group;
    this.quota = quotaOf(rule, group);
    this.takesSlots = takesSlots(rule, group);
    this.pins = !this.takesSlots && rule.byGroup && rule.weight !== null && rule.quota.max !== null;
    this.limitState = keys.limitState(rule.name, stateGrpOf(rule, group));
    this.#step = step;
    this.#keys = keys;
    const { max, windowMs } = this.quota;
    if (max !== null && windowMs !== null) this.limitState.watch(windowMs, max > MANY ? windowMs / 1_000 : 0);
    if (this.quota.everyMs !== null) this.limitState.space();
    this.windowWait = (most, length, weight) =>
      windowWait(
        step,
        this.limitState.row,
        { max: most, windowMs: length },
        weight,
        this.limitState.used(length),
        this.limitState.taken,
      );
  }

  /** Starts are not kept long enough for its window. */
  get unprepared(): boolean {
    const { max, windowMs } = this.quota;
    return max !== null && windowMs !== null && !this.limitState.keeps(windowMs);
  }

  /** The step writes from now on: first, how long starts have to be kept. */
  prepare(): void {
    this.#writes = true;
    if (this.unprepared) this.limitState.keep(this.quota.windowMs!);
  }

  /** How much of the window is in use; 0 without one. */
  get used(): number {
    const { max, windowMs } = this.quota;
    return max === null || windowMs === null ? 0 : this.limitState.used(windowMs);
  }

  get slots(): SlotsInUse {
    return this.takesSlots ? this.limitState.slots : NO_SLOTS;
  }

  get keyState(): KeyState {
    return this.limitState.keyState;
  }

  get now(): number {
    return this.#step.now;
  }

  wait(charge: Charge, priority?: number): Wait {
    const wait = this.#waitFor(charge, priority);
    if (wait !== 0) this.#refused = true;
    return wait;
  }

  #waitFor(charge: Charge, priority?: number): Wait {
    const wait = this.#fits(charge) ? 0 : decideFor(this, charge).wait;
    if (wait === NEVER || priority === undefined || this.rule.weight === null) return wait;
    const { id, since } = this.#keys.askingFor(this.rule.name);
    return Math.max(wait, this.behind({ id, since, priority }, false));
  }

  /**
   * Has it refused something (`wait`), and would a release of its slots wake up nothing? The first refusal since the latest wake-up is
   * written, those after it are not. Without a row there are no slots to be released.
   */
  get isUnmarked(): boolean {
    return this.#refused && this.takesSlots && this.limitState.row?.awaited === 0;
  }

  /** Its next release wakes up what waits. */
  mark(): void {
    if (this.isUnmarked) this.#step.sql(AWAITED).run(this.limitState.row!.id);
  }

  take(charge: Charge): void {
    this.limitState.take(charge, this.#keys.start, this.takesSlots, this.#keys.ttlMs);
  }

  /** How much is available now: 0 if anything blocks; infinity: no bound. */
  get available(): number {
    if (this.#waitFor(ONE) !== 0) return 0;
    return availableNow(this.rule, this.quota, this.keyState, this.slots, this.used, this.now);
  }

  /** The fast path: nothing but numbers can block, and they fit. Most questions end here. */
  #fits({ weight, slots }: Charge): boolean {
    const { max, windowMs, concurrency } = this.quota;
    if (!(this.#plain ??= this.#isPlain())) return false;
    if (concurrency !== null && !(this.limitState.slots.slots + slots <= concurrency)) return false;
    return max === null || windowMs === null || (max > 0 && this.limitState.used(windowMs) + weight <= max);
  }

  #isPlain(): boolean {
    const { keyState } = this.limitState;
    const { paused, heldUntil, blindUntil } = this.rule;
    const { now } = this.#step;
    const { windowMs, everyMs } = this.quota;
    const forgotten = this.limitState.row?.forgotten_at ?? null;
    return (
      !paused &&
      (heldUntil ?? 0) <= now &&
      (windowMs === null || (blindUntil ?? 0) <= now) &&
      everyMs === null &&
      (keyState.heldUntil === null || keyState.heldUntil <= now) &&
      (keyState.remainingUntil === null || keyState.remainingUntil <= now) &&
      (this.rule.breaker === null || keyState.openUntil === null) &&
      (windowMs === null || forgotten === null || now - forgotten >= windowMs)
    );
  }

  /** How long it waits for heavy heads; `claimed`: as if these were claimed at once. */
  behind(asking: Asking, claimed: boolean): Wait {
    const { rule, limitState } = this;
    const fits = (weights: Parameters<typeof chargeOf>[1]) => decideFor(this, chargeOf(rule, weights)).wait;
    this.#heavy ??= heavyHeads(this.#step, rule.name, limitState.grp, fits, this.#writes);
    return waitForHeads(this.#heavy, asking, this.#step.now, () => claimed);
  }
}

/** The keys of limits that one step looks at. */
export class SqliteKeys {
  readonly #step: Step;
  readonly #limitStates = new Map<string, SqliteLimitState>();
  readonly #keys = new Map<LimitRule, Map<string | null, SqliteKey>>();
  /** A start is called within so long, or never, and confirmed; undefined: it is called at once. */
  readonly ttlMs: number | undefined;
  /** Which start of the step is under way. */
  start = 1;
  /** The lane that asks, and which limit its head waits for already, if one does. */
  asking: { readonly id: number; readonly by: string | null; readonly since: number } | undefined;

  constructor(step: Step, ttlMs?: number) {
    this.#step = step;
    this.ttlMs = ttlMs;
  }

  readonly key = (rule: LimitRule, group: string | null): SqliteKey => {
    let groups = this.#keys.get(rule);
    if (groups === undefined) this.#keys.set(rule, (groups = new Map()));
    let key = groups.get(group);
    if (key === undefined) groups.set(group, (key = new SqliteKey(this.#step, this, rule, group)));
    return key;
  };

  /** Has a key for all refused a job, with nothing to remember it by? Lanes that one of a group refuses stand at its gate. */
  get areUnmarked(): boolean {
    return this.#forAll().some((key) => key.isUnmarked);
  }

  /** What these keys have refused to jobs is woken up by a release. */
  mark(): void {
    for (const key of this.#forAll()) key.mark();
  }

  #forAll(): SqliteKey[] {
    return Array.from(this.#keys, ([{ byGroup }, own]) => (byGroup ? undefined : own.get(null))).filter(
      (key) => key !== undefined,
    );
  }

  /** Since when the lane that asks waits for this limit. */
  askingFor(name: string): Pick<Asking, "id" | "since"> {
    const { asking } = this;
    return { id: asking?.id ?? 0, since: asking?.by === name ? asking.since : Number.POSITIVE_INFINITY };
  }

  /** Rules of one name share one limit state. */
  limitState(name: string, grp: string): SqliteLimitState {
    const key = `${name.length} ${name}${grp}`;
    let limitState = this.#limitStates.get(key);
    if (limitState === undefined)
      this.#limitStates.set(key, (limitState = new SqliteLimitState(this.#step, name, grp)));
    return limitState;
  }
}
