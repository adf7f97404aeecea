import { chargeKey, decideStart, type KeyState, newKeyState, NO_SLOTS } from "../../../limits/key-state.ts";
import { type Charge, chargeOf, type LimitRule, type Quota, quotaOf } from "../../../limits/rule.ts";
import { NEVER, type Wait, WHEN_RELEASED } from "../../../limits/wait.ts";
import type { LimitKey } from "../../../planner/claim-limits.ts";
import { type HeavyHead, waitForHeads } from "../../../planner/heavy-heads.ts";
import type { HeavyRow, LimitStateRow, Snapshot } from "../jobs/snapshot.ts";
import { stateGrpOf } from "./groups.ts";

/** The lane that asks, and since when its head waits for which state of which limit, if it does. */
export interface Asking {
  readonly id: number;
  readonly by: string | null;
  readonly grp: string | null;
  readonly since: number;
}

/** A heavy head whose lane is ready: the claim may start it itself. */
export interface ReadyHead extends HeavyHead {
  readonly by: string;
  readonly grp: string;
  readonly weights: Readonly<Record<string, number>> | null;
}

/** How long ago the snapshot of an earlier claim was answered; and whether the claim that is planned gives back slots, or confirms starts. */
export interface Earlier {
  readonly elapsed: number;
  readonly releases: boolean;
  readonly confirms: boolean;
}

/** What a plan has taken of the state that rules of one name share. */
interface Taken {
  weight: number;
  slots: number;
  starts: number;
  /** Which start it was last charged for, and how much. */
  latest: number;
  charged: number;
}

const RELEASED = 1e18;
const PRESENT: Earlier = { elapsed: 0, releases: false, confirms: false };
/** Stands for the grant that a plan will be. */
const PLANNED = -1;

/** The limits of one snapshot, as one plan sees them. */
export class SnapshotKeys {
  readonly now: number;
  readonly earlier: Earlier;
  readonly #states = new Map<string, LimitStateRow>();
  readonly #taken = new Map<string, Taken>();
  readonly #heavy: readonly HeavyRow[];
  /** Heavy heads that the claim may start itself, as the plan goes on. */
  readyHeads: () => readonly ReadyHead[] = () => [];
  /** Which start of the plan is under way. */
  start = 1;
  asking: Asking | undefined;
  /** What was asked last fits only if the claim frees what it needs. */
  isDoubtful = false;
  /** Limits for all that refused something, and do not say so yet. Lanes that one of a group refuses stand at its gate. */
  readonly unmarked = new Set<string>();
  /** The same of limits that do not say yet that this claimant waits for slots: if they start nothing of it, they have to. */
  readonly unserved = new Set<string>();
  /** For how long others have waited for slots that were refused. */
  othersWaitMs = 0;

  /** What starts is called within so long; undefined: at once. */
  readonly ttlMs: number | undefined;

  constructor({ states, heavy, now }: Snapshot, ttlMs: number | undefined, earlier: Earlier = PRESENT) {
    this.ttlMs = ttlMs;
    for (const row of states) {
      const key = stateKey(row[0], row[1], row[2]);
      // A limit that the claim brings along may have the name and window of a stored one. That one may have slots.
      if ((this.#states.get(key)?.[4] ?? null) === null) this.#states.set(key, row);
    }
    this.#heavy = heavy;
    this.now = now + earlier.elapsed;
    this.earlier = earlier;
  }

  readonly key = (rule: LimitRule, group: string | null): SnapshotKey => new SnapshotKey(this, rule, group);

  /** The limit refuses something. */
  refuses({ name, byGroup }: LimitRule, row: LimitStateRow): void {
    this.othersWaitMs = Math.max(this.othersWaitMs, row[20] ?? 0);
    if (!byGroup && !row[18]) this.unmarked.add(name);
    if (!byGroup && !row[19]) this.unserved.add(name);
  }

  state(name: string, grp: string, windowMs: number | null): LimitStateRow | undefined {
    return this.#states.get(stateKey(name, grp, windowMs));
  }

  taken(name: string, grp: string): Taken {
    const key = stateKey(name, grp, null);
    let taken = this.#taken.get(key);
    if (taken === undefined) {
      this.#taken.set(key, (taken = { weight: 0, slots: 0, starts: 0, latest: 0, charged: 0 }));
    }
    return taken;
  }

  /** Since when the job that asks waits for this limit; infinity: it does not. */
  since(name: string, grp: string): number {
    const { asking } = this;
    return asking?.by === name && asking.grp === grp ? asking.since : Number.POSITIVE_INFINITY;
  }

  /**
   * How long heads that are too heavy for this limit are waited for, by a job of this priority that asks now. `isDrained`: does a head with
   * these weights fit now, and not beside that job?
   */
  behind(name: string, grp: string, priority: number, isDrained: (weights: ReadyHead["weights"]) => boolean): Wait {
    const asking = { id: this.asking?.id ?? 0, priority, since: this.since(name, grp) };
    const heads = this.#heavy.flatMap(([limit, state, lane, own, until, waited]): HeavyHead[] => {
      if (limit !== name || state !== grp) return [];
      return [{ id: lane, priority: own, until: until >= RELEASED ? WHEN_RELEASED : until, since: waited }];
    });
    const ready = this.readyHeads().filter((head) => head.by === name && head.grp === grp);
    const claimed = waitForHeads(ready, asking, this.now, {
      mayStart: () => true,
      isDrained: ({ weights }) => isDrained(weights),
    });
    return Math.max(claimed, waitForHeads(heads, asking, this.now));
  }
}

const stateKey = (name: string, grp: string, windowMs: number | null): string =>
  `${name.length} ${name}${grp.length} ${grp}${windowMs ?? ""}`;

/** One limit as a plan sees it. */
export class SnapshotKey implements LimitKey {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly #keys: SnapshotKeys;
  readonly #quota: Quota;
  readonly #row: LimitStateRow | undefined;
  readonly #state: KeyState;
  readonly #holds: boolean;
  readonly #taken: Taken;
  readonly #grp: string;

  constructor(keys: SnapshotKeys, rule: LimitRule, group: string | null) {
    this.rule = rule;
    this.group = group;
    this.#keys = keys;
    this.#quota = quotaOf(rule, group);
    const grp = stateGrpOf(rule, group);
    this.#row = keys.state(rule.name, grp, this.#quota.max === null ? null : this.#quota.windowMs);
    this.#state = stateOf(this.#row);
    this.#holds = rule.breaker !== null || this.#quota.concurrency !== null;
    this.#taken = keys.taken(rule.name, grp);
    this.#grp = grp;
  }

  wait(charge: Charge, priority?: number): Wait {
    const { releases, confirms } = this.#keys.earlier;
    let wait = this.#wait(charge, false);
    if (wait !== 0 && wait !== NEVER && (releases || confirms) && this.#wait(charge, true) === 0) {
      this.#keys.isDoubtful = true;
      wait = 0;
    }
    if (wait !== 0 && this.#row !== undefined) this.#keys.refuses(this.rule, this.#row);
    if (wait === NEVER || priority === undefined || this.rule.weight === null) return wait;
    return Math.max(
      wait,
      this.#keys.behind(this.rule.name, this.#grp, priority, (weights) => this.#isDrained(weights, charge)),
    );
  }

  /** Does a head with these weights fit now, but not any more after a start with this charge? (`isDrainedBy`) */
  #isDrained(weights: ReadyHead["weights"], other: Charge): boolean {
    const charge = chargeOf(this.rule, weights);
    if (this.#wait(charge, false) !== 0) return false;
    if (this.#quota.everyMs !== null) return true;
    const both = { weight: charge.weight + other.weight, slots: charge.slots + other.slots };
    return this.#wait(both, false, 1) !== 0;
  }

  /** Which lanes are behind a head is decided where the plan is carried out (sql/take.sql: grant_planned). */
  waitForOwnHeads(): Wait {
    return 0;
  }

  get since(): number {
    return this.#keys.since(this.rule.name, this.#grp);
  }

  /** Does a release of its slots wake up what waits, though no lane stands at its gate? */
  get wakesByMark(): boolean {
    return !this.rule.byGroup || this.#row?.[18] !== false;
  }

  /**
   * `freed`: as if all slots were released, and all starts had been called when they were granted, if the claim says such things. `others`: how
   * many more have started.
   */
  #wait(charge: Charge, freed: boolean, others = 0): Wait {
    const row = this.#row;
    const taken = this.#taken;
    const { elapsed, releases, confirms } = this.#keys.earlier;
    const expiresIn = row?.[6] ?? null;
    const kept = freed && releases ? undefined : row;
    const held = this.#holds
      ? {
          slots: (kept?.[4] ?? 0) + taken.slots,
          probes: (kept?.[5] ?? 0) + taken.starts + others,
          expiresIn: expiresIn === null ? WHEN_RELEASED : Math.max(0, expiresIn - elapsed),
        }
      : NO_SLOTS;
    const early = freed && confirms ? (this.#keys.ttlMs ?? 0) : 0;
    const state =
      early > 0 && this.#state.calledAt !== null
        ? { ...this.#state, calledAt: this.#state.calledAt - early }
        : this.#state;
    return decideStart(this.rule, this.group, state, held, charge, this.#keys.now, (max, windowMs, weight) =>
      this.#windowWait(max, windowMs, weight, early),
    ).wait;
  }

  take({ weight, slots }: Charge): void {
    const taken = this.#taken;
    const { start, now, ttlMs } = this.#keys;
    if (taken.latest !== start) {
      taken.latest = start;
      taken.charged = 0;
      taken.starts += 1;
    }
    const more = Math.max(0, weight - taken.charged);
    taken.charged += more;
    taken.weight += more;
    if (this.#holds) taken.slots += slots;
    const granted = ttlMs === undefined ? undefined : { by: PLANNED, until: now + ttlMs };
    chargeKey(this.#state, { weight: more, slots }, now, granted);
  }

  /** The arithmetic of `limits/window.ts` on the starts that leave the window first. */
  #windowWait(max: number, windowMs: number, weight: number, early: number): Wait {
    const { now, ttlMs = 0 } = this.#keys;
    const elapsed = this.#keys.earlier.elapsed + early;
    const used = (this.#row?.[3] ?? 0) + this.#taken.weight;
    const forgottenAt = this.#row?.[15] ?? null;
    const blind = forgottenAt === null ? 0 : Math.max(0, windowMs - (now - forgottenAt));
    let excess = used + weight - max;
    for (const [wait, n] of this.#row?.[16] ?? []) {
      if (excess <= 0) break;
      excess -= n;
      if (excess <= 0) return Math.max(blind, wait - elapsed, 0);
    }
    // What the plan has taken itself leaves last.
    return excess <= 0 ? blind : Math.max(blind, windowMs + Math.min(ttlMs, this.#row?.[17] ?? 0));
  }
}

function stateOf(row: LimitStateRow | undefined): KeyState {
  if (row === undefined) return newKeyState();
  return {
    latestAt: row[7],
    calledAt: row[8],
    calledBy: row[9],
    calledIn: row[10] ?? 0,
    heldUntil: row[11],
    remaining: row[12],
    remainingUntil: row[13],
    failures: 0,
    openUntil: row[14],
  };
}
