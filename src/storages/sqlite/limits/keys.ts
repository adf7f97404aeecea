import { availableNow, type KeyState, NO_SLOTS, type SlotsInUse } from "../../../limits/key-state.ts";
import { type Charge, chargeOf, type LimitRule, ONE, type Quota, quotaOf, takesSlots } from "../../../limits/rule.ts";
import { othersWait, PERMITS, type Starved, starve } from "../../../limits/starved.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { LimitKey } from "../../../planner/claim-limits.ts";
import { type Asking, waitForHeads } from "../../../planner/heavy-heads.ts";
import { decideFor, type InspectedKey, isDrainedBy } from "../../../storage/inspected-key.ts";
import { weightsOf } from "../jobs/record.ts";
import type { Step } from "../step.ts";
import { stateGrpOf } from "./groups.ts";
import type { OfType } from "./gates.ts";
import { heavyHeads, type HeavyRow } from "./heavy-heads.ts";
import { SqliteLimitState } from "./limit-state.ts";
import { windowWait } from "./windows.ts";

/** From this number on starts share rows: by a thousandth of the window at most. */
const MANY = 1_000;

const AWAITED = `UPDATE sluice_limits SET awaited = max(awaited, ?), starved_by = ?, starved_since = ? WHERE id = ?`;

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
  #started = false;
  #heavy: readonly HeavyRow[] | undefined;
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

  get since(): number {
    return this.#keys.askingFor(this.rule.name).since;
  }

  waitForOwnHeads(priority: number): Wait {
    const { asking } = this.#keys;
    const own = [...this.heads].filter(({ queue, type }) => queue === asking?.queue && type === asking.type);
    return waitForHeads(own, { ...this.#keys.askingFor(this.rule.name), priority }, this.now, {
      mayStart: (head) => this.#keys.mayStart(head),
      isDrained: () => false,
    });
  }

  #waitFor(charge: Charge, priority?: number): Wait {
    const wait = this.#fits(charge) ? 0 : decideFor(this, charge).wait;
    if (wait === NEVER || priority === undefined || this.rule.weight === null) return wait;
    const { heads } = this;
    if (this.#heavy!.length === 0) return wait;
    const behind = waitForHeads(heads, { ...this.#keys.askingFor(this.rule.name), priority }, this.now, {
      mayStart: (head) => this.#keys.mayStart(head),
      isDrained: (head) => isDrainedBy(this, chargeOf(this.rule, weightsOf(head)), charge),
    });
    return Math.max(wait, behind);
  }

  /**
   * Has it refused something (`wait`), and is that not written yet? The first refusal since the latest wake-up is, those after it are not.
   * Without a row there are no slots to be released.
   */
  get isUnmarked(): boolean {
    const { row } = this.limitState;
    if (!this.#refused || !this.takesSlots || row === undefined) return false;
    return (this.#wakesByMark && row.awaited === 0) || this.#starved?.by !== (row.starved_by ?? undefined);
  }

  /** Its next release wakes up what waits; and it is known who waits. */
  mark(): void {
    const released = this.#refused ? this.#step.released.get(this.limitState.row?.id ?? 0) : undefined;
    if (released !== undefined) released.refused = true;
    if (!this.isUnmarked) return;
    const starved = this.#starved;
    const awaited = this.#wakesByMark ? 1 : 0;
    this.#step.sql(AWAITED).run(awaited, starved?.by ?? null, starved?.since ?? null, this.limitState.row!.id);
  }

  /** Lanes that a key of a group refuses stand at its gate: they are woken up without a mark. */
  get #wakesByMark(): boolean {
    return !this.rule.byGroup || this.#keys.claimant === PERMITS;
  }

  /** Who waits for its slots, with what this step was refused. */
  get #starved(): Starved | undefined {
    const { row } = this.limitState;
    const before =
      row === undefined || row.starved_by === null ? undefined : { by: row.starved_by, since: row.starved_since! };
    const { claimant } = this.#keys;
    return this.#refused && !this.#started && claimant !== undefined
      ? starve(before, claimant, this.#step.now)
      : before;
  }

  /** For how long others have waited for slots that the step takes, or waits for if it starts nothing. */
  get othersWaitMs(): number {
    const { claimant, start } = this.#keys;
    if (claimant === undefined || !this.takesSlots || !(this.#started || (this.#refused && start === 1))) return 0;
    return othersWait(this.#starved, claimant, this.#step.now);
  }

  take(charge: Charge): void {
    this.#started = true;
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

  /** Its heavy heads, but for those that the step has decided about. They are read once, and judged again by what was given back. */
  get heads(): Iterable<HeavyRow> {
    const { rule, limitState } = this;
    const fits = (weights: Parameters<typeof chargeOf>[1]) => decideFor(this, chargeOf(rule, weights)).wait;
    this.#heavy ??= heavyHeads(this.#step, rule.name, limitState.grp, fits, this.#writes);
    return this.#keys.decided.size === 0 ? this.#heavy : without(this.#heavy, this.#keys.decided);
  }
}

/** One after another: mostly the first of very many is waited for until a release, and no other matters. */
function* without(heads: readonly HeavyRow[], lanes: ReadonlySet<number>): Iterable<HeavyRow> {
  for (const head of heads) if (!lanes.has(head.id)) yield head;
}

/** A lane that asks, and which limit its head waits for already, if one does. */
interface AskingLane {
  readonly id: number;
  readonly queue: string;
  readonly type: string;
  readonly by: string | null;
  readonly since: number;
}

/** The keys of limits that one step looks at. */
export class SqliteKeys {
  readonly #step: Step;
  readonly #limitStates = new Map<string, SqliteLimitState>();
  readonly #keys = new Map<LimitRule, Map<string | null, SqliteKey>>();
  readonly claimant: string | undefined;
  /** A start is called within so long, or never, and confirmed; undefined: it is called at once. */
  readonly ttlMs: number | undefined;
  /** Which start of the step is under way. */
  start = 1;
  /** May the step start heads of this queue and type? */
  mayStart: (of: OfType) => boolean = () => false;
  /** Lanes whose heavy heads it has started or refused: these reserve nothing any more, or what the plan says. */
  readonly decided = new Set<number>();
  asking: AskingLane | undefined;

  /** `claimant`: who takes of them (`limits/starved.ts`); undefined: nothing is taken. */
  constructor(step: Step, claimant?: string, ttlMs?: number) {
    this.#step = step;
    this.claimant = claimant;
    this.ttlMs = ttlMs;
  }

  readonly key = (rule: LimitRule, group: string | null): SqliteKey => {
    let groups = this.#keys.get(rule);
    if (groups === undefined) this.#keys.set(rule, (groups = new Map()));
    let key = groups.get(group);
    if (key === undefined) groups.set(group, (key = new SqliteKey(this.#step, this, rule, group)));
    return key;
  };

  /** Has one of them refused something that is not written yet? */
  get areUnmarked(): boolean {
    return this.#all().some((key) => key.isUnmarked);
  }

  /** Writes what they have refused. */
  mark(): void {
    for (const key of this.#all()) key.mark();
  }

  /** For how long others have waited for slots that the step takes, or waits for if it starts nothing. */
  get othersWaitMs(): number {
    return Math.max(0, ...this.#all().map((key) => key.othersWaitMs));
  }

  #all(): readonly SqliteKey[] {
    return Array.from(this.#keys.values(), (groups) => Array.from(groups.values())).flat();
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
