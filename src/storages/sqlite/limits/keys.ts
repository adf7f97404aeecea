import { decideStart, NO_SLOTS, type KeyDecision } from "../../../limits/key-state.ts";
import { type Charge, type LimitRule, type Quota, quotaOf } from "../../../limits/rule.ts";
import { NEVER, type Wait } from "../../../limits/wait.ts";
import type { LimitKey } from "../../../planner/claim-limits.ts";
import type { Step } from "../step.ts";
import { windowWait } from "../windows.ts";
import { Account } from "./account.ts";
import { stateGrpOf } from "./groups.ts";
import { type Asking, type HeavyHead, heavyHeads, waitForHeavy } from "./heavy-heads.ts";
import { holds } from "./holds.ts";

/** From this number on starts share rows: by a thousandth of the window at the most, which nobody will notice. */
const MANY = 1_000;

const ONE: Charge = { weight: 1, slots: 1 };

/** One limit as one step sees it. */
export class SqliteKey implements LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly quota: Quota;
  readonly account: Account;
  /** Something is held by every start. */
  readonly holds: boolean;
  /** A start may be corrected when its group has long been idle: until its lease ends, the group is remembered. */
  readonly pins: boolean;
  readonly #step: Step;
  readonly #keys: SqliteKeys;
  #plain: boolean | undefined;
  #heavy: readonly HeavyHead[] | undefined;
  readonly #window: (max: number, windowMs: number, weight: number) => Wait;

  constructor(step: Step, keys: SqliteKeys, rule: LimitRule, group: string | null) {
    this.rule = rule;
    this.group = group;
    this.quota = quotaOf(rule, group);
    this.holds = holds(rule, group);
    this.pins = !this.holds && rule.byGroup && rule.weight !== null && rule.quota.max !== null;
    this.account = keys.account(rule.name, stateGrpOf(rule, group));
    this.#step = step;
    this.#keys = keys;
    const { max, windowMs } = this.quota;
    if (max !== null && windowMs !== null) this.account.watch(windowMs, max > MANY ? windowMs / 1_000 : 0);
    if (this.quota.everyMs !== null) this.account.space();
    this.#window = (most, length, weight) =>
      windowWait(
        step,
        this.account.row,
        { max: most, windowMs: length },
        weight,
        this.account.used(length),
        this.account.taken,
      );
  }

  /** Starts are not kept long enough for its window. */
  get unprepared(): boolean {
    const { max, windowMs } = this.quota;
    return max !== null && windowMs !== null && !this.account.keeps(windowMs);
  }

  /** Writes down how long starts have to be kept. */
  prepare(): void {
    if (this.unprepared) this.account.keep(this.quota.windowMs!);
  }

  /** How much of the window is in charged; 0 without one. */
  get used(): number {
    const { max, windowMs } = this.quota;
    return max === null || windowMs === null ? 0 : this.account.used(windowMs);
  }

  get held(): number {
    return this.account.held.slots;
  }

  verdict(charge: Charge): KeyDecision {
    const { account } = this;
    const held = this.holds ? account.held : NO_SLOTS;
    return decideStart(this.rule, this.group, account.gauge, held, charge, this.#step.now, this.#window);
  }

  wait(charge: Charge, priority?: number): Wait {
    const wait = this.#fits(charge) ? 0 : this.verdict(charge).wait;
    if (wait === NEVER || priority === undefined || this.rule.weight === null) return wait;
    // A light one would fit now and then for ever, while a heavy one waits.
    return Math.max(wait, this.#behind(priority, this.#keys.askingFor(this.rule.name)));
  }

  /** The same for people: whoever claims is there. */
  verdictFor(asking: Asking, charge: Charge, priority: number): KeyDecision {
    const own = this.verdict(charge);
    if (own.wait === NEVER || this.rule.weight === null) return own;
    const wait = this.#behind(priority, asking, true);
    return wait > own.wait ? { wait, reason: this.quota.max === null ? "concurrency" : "window" } : own;
  }

  take(charge: Charge): void {
    this.account.take(charge, this.#keys.start, this.holds, this.#keys.ttlMs);
  }

  /** How much could start at once: 0 if anything is in the way; null: as much as anybody likes. */
  get free(): number | null {
    if (this.wait(ONE) !== 0) return 0;
    const { max, concurrency, everyMs } = this.quota;
    const { rule } = this;
    const { toldUntil, toldLeft, openUntil } = this.account.gauge;
    // What is weighed is told by weight; what counts starts then leaves room for one at least.
    const weighs = rule.weight !== null;
    let free = Number.POSITIVE_INFINITY;
    if (max !== null) free = max - this.used;
    if (concurrency !== null && !(weighs && max !== null)) free = Math.min(free, concurrency - this.held);
    if (toldUntil !== null && this.#step.now < toldUntil && !(weighs && max === null)) {
      free = Math.min(free, toldLeft ?? 0);
    }
    if (!weighs && everyMs !== null) free = Math.min(free, 1);
    if (!weighs && rule.breaker !== null && openUntil !== null) {
      free = Math.min(free, rule.breaker.probes - this.account.held.probes);
    }
    return free === Number.POSITIVE_INFINITY ? null : free;
  }

  /** Whatever is not a matter of numbers is not in the way, and the numbers decision room. Most questions end here. */
  #fits({ weight, slots }: Charge): boolean {
    const { max, windowMs, concurrency } = this.quota;
    if (!(this.#plain ??= this.#isPlain())) return false;
    if (concurrency !== null && !(this.account.held.slots + slots <= concurrency)) return false;
    return max === null || windowMs === null || (max > 0 && this.account.used(windowMs) + weight <= max);
  }

  #isPlain(): boolean {
    const { pausedUntil, toldUntil, openUntil } = this.account.gauge;
    const { paused, heldUntil, blindUntil } = this.rule;
    const { now } = this.#step;
    const { windowMs, everyMs } = this.quota;
    const forgotten = this.account.row?.forgotten_at ?? null;
    return (
      !paused &&
      (heldUntil ?? 0) <= now &&
      (windowMs === null || (blindUntil ?? 0) <= now) &&
      everyMs === null &&
      (pausedUntil === null || pausedUntil <= now) &&
      (toldUntil === null || toldUntil <= now) &&
      (this.rule.breaker === null || openUntil === null) &&
      (windowMs === null || forgotten === null || now - forgotten >= windowMs)
    );
  }

  /** How long others wait for it who come before somebody of this priority. */
  #behind(priority: number, asking: Asking | undefined, promptly = false): Wait {
    this.#heavy ??= heavyHeads(this.#step, this.rule.name, this.account.grp);
    if (this.#heavy.length === 0) return 0;
    return waitForHeavy(this.#step, this.#heavy, priority, asking, promptly);
  }
}

/** The limits that one step looks at. */
export class SqliteKeys {
  readonly #step: Step;
  readonly #accounts = new Map<string, Account>();
  readonly #keys = new Map<LimitRule, Map<string | null, SqliteKey>>();
  /** What is taken is called within so long, or never, and confirmed; undefined: it is called at once. */
  readonly ttlMs: number | undefined;
  /** Which start of the step is under way. */
  start = 1;
  /** The lane that asks, and which limit its head waits for already, if one does. */
  asking: (Asking & { readonly by: string | null }) | undefined;

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

  /** Since when the lane that asks waits for this limit. */
  askingFor(name: string): Asking | undefined {
    const { asking } = this;
    return asking === undefined || asking.by === name ? asking : { id: asking.id, since: Number.POSITIVE_INFINITY };
  }

  /** Rules of one name share what is counted under it. */
  account(name: string, grp: string): Account {
    const key = `${name.length} ${name}${grp}`;
    let account = this.#accounts.get(key);
    if (account === undefined) this.#accounts.set(key, (account = new Account(this.#step, name, grp)));
    return account;
  }
}
