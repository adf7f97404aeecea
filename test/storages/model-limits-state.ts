import type { JobKeys } from "../../src/core/job.ts";
import type { LimitRule, Quota } from "../../src/limits/rule.ts";
import type { LimitChange } from "../../src/storage/limit-storage.ts";

/** One start in a window. */
export interface ModelStart {
  at: number;
  weight: number;
  /** What was charged for it and has left the window since. */
  expired: number;
}

export interface ModelHold {
  slots: number;
  readonly at: number;
  until: number | null;
}

/** What is counted under a limit for one group, or for all. */
export interface Count {
  starts: ModelStart[];
  holds: ModelHold[];
  latestAt: number | null;
  pausedUntil: number;
  told: { left: number; until: number } | null;
  failures: number;
  openUntil: number | null;
}

/** What the start of a job, or a permit, took of one limit. */
export interface ModelUse {
  readonly limit: ModelLimit;
  readonly group: string | null;
  /** What it was counted in; after a reset that is nobody's any more, and nobody's at all if it was adopted. */
  readonly count: Count;
  readonly at: number;
  start: ModelStart | undefined;
  hold: ModelHold | undefined;
}

export interface Charge {
  readonly weight: number;
  readonly slots: number;
}

export const NEVER = -1;

/** A job's start under one limit, as it stands. */
export interface Asked {
  readonly limit: ModelLimit;
  readonly group: string | null;
  readonly charge: Charge;
  readonly wait: number;
}

/** One kept limit, as simply as it can be said: every start and every hold in an array, every question a search. */
export class ModelLimit {
  declared: LimitRule;
  quota: Partial<Quota> = {};
  groups: Record<string, Partial<Quota>> = {};
  paused = false;
  revision = 1;
  /** Nothing starts before, in any group; undefined: nobody has said so. */
  heldUntil: number | undefined;
  readonly counts = new Map<string | null, Count>();

  constructor(declared: LimitRule) {
    this.declared = declared;
  }

  get name(): string {
    return this.declared.name;
  }

  applies(queue: string, type: string): boolean {
    const { queues, types } = this.declared;
    return (queues === null || queues.includes(queue)) && (types === null || types.includes(type));
  }

  /** The same for a try: whatever happens to it happens only there. */
  clone(): ModelLimit {
    const copy = Object.assign(new ModelLimit(this.declared), {
      quota: this.quota,
      paused: this.paused,
      heldUntil: this.heldUntil,
    });
    copy.groups = { ...this.groups };
    for (const [group, count] of this.counts) copy.counts.set(group, structuredClone(count));
    return copy;
  }

  /** What it counts a job for. */
  valueOf({ group, keys }: { readonly group: string | null; readonly keys: JobKeys | undefined }): string | null {
    const { byGroup, by = ["group"] } = this.declared;
    const values = by.map((name) => (name === "group" ? group : (keys?.[name] ?? null)));
    if (!byGroup || values.every((value) => value === null)) return null;
    return values.map((value) => value ?? "").join(",");
  }

  /** Whom it counts for that is not a job. */
  groupOf(group: string | null): string | null {
    return this.declared.byGroup ? group : null;
  }

  quotaOf(group: string | null): Quota {
    const own =
      this.declared.byGroup && group !== null ? { ...this.declared.groups[group], ...this.groups[group] } : {};
    return { ...this.declared.quota, ...this.quota, ...own };
  }

  count(group: string | null): Count {
    const found = this.counts.get(group) ?? emptyCount();
    this.counts.set(group, found);
    return found;
  }

  charge(weights: Readonly<Record<string, number>> | null): Charge {
    const { weight } = this.declared;
    return this.chargeOf(weight === null ? 1 : (weights?.[weight] ?? null));
  }

  /** null: what it estimates. */
  chargeOf(weight: number | null): Charge {
    const { estimate, quota } = this.declared;
    const counts = weight ?? (this.declared.weight === null ? 1 : estimate);
    return quota.max === null ? { weight: 1, slots: counts } : { weight: counts, slots: 1 };
  }

  /** The most that fits at once, if that is less than the charge. */
  most(group: string | null, { weight, slots }: Charge): number | null {
    const { max, concurrency } = this.quotaOf(group);
    if (max !== null && max > 0 && weight > max) return max;
    if (concurrency !== null && concurrency > 0 && slots > concurrency) return concurrency;
    return null;
  }

  used(group: string | null, now: number): number {
    const { windowMs } = this.quotaOf(group);
    let sum = 0;
    for (const { at, weight } of this.counts.get(group)?.starts ?? []) if (now - at < (windowMs ?? 0)) sum += weight;
    return sum;
  }

  held(group: string | null, now: number): number {
    let sum = 0;
    for (const { slots, until } of this.counts.get(group)?.holds ?? []) if (until === null || until > now) sum += slots;
    return sum;
  }

  /** Is anything held that comes back by itself? */
  holdsForATime(now: number): boolean {
    return [...this.counts.values()].some(({ holds }) => holds.some(({ until }) => until !== null && until > now));
  }

  /** When does the charge fit? Infinity: when somebody gives something back. */
  wait(group: string | null, charge: Charge, now: number): number {
    if (this.most(group, charge) !== null) return NEVER;
    const { max, concurrency, everyMs } = this.quotaOf(group);
    const count = this.counts.get(group) ?? emptyCount();
    const held = this.held(group, now);
    const expiries = count.holds.flatMap(({ until }) => (until !== null && until > now ? [until - now] : []));
    const expiresIn = Math.min(Number.POSITIVE_INFINITY, ...expiries);
    const waits = [0, count.pausedUntil - now, (this.heldUntil ?? now) - now];
    if (this.paused) waits.push(Number.POSITIVE_INFINITY);
    if (max !== null) waits.push(max === 0 ? Number.POSITIVE_INFINITY : this.#windowWait(group, charge.weight, now));
    if (everyMs !== null && count.latestAt !== null) waits.push(count.latestAt + everyMs - now);
    if (concurrency !== null && held + charge.slots > concurrency) {
      waits.push(concurrency === 0 ? Number.POSITIVE_INFINITY : expiresIn);
    }
    if (count.told !== null && count.told.until > now && charge.weight > count.told.left)
      waits.push(count.told.until - now);
    const { breaker } = this.declared;
    if (breaker !== null && count.openUntil !== null) {
      const { openUntil } = count;
      const probes = count.holds.filter(({ at, until }) => at >= openUntil && (until === null || until > now)).length;
      if (now < openUntil) waits.push(openUntil - now);
      else if (probes >= breaker.probes) waits.push(expiresIn);
    }
    return Math.max(...waits);
  }

  /** The same for one that counts for one, when so many others have started before it, each as soon as it could. */
  waitBehind(group: string | null, ahead: number, now: number): number {
    const tried = this.clone();
    let at = now;
    for (let i = 0; i < ahead && at < Number.POSITIVE_INFINITY; i++) {
      at += tried.wait(group, { weight: 1, slots: 1 }, at);
      if (at < Number.POSITIVE_INFINITY) tried.take(group, { weight: 1, slots: 1 }, at, null);
    }
    return at === Number.POSITIVE_INFINITY ? at : at - now + tried.wait(group, { weight: 1, slots: 1 }, at);
  }

  /** The first instant, of those at which a start leaves the window, at which there is room. */
  #windowWait(group: string | null, weight: number, now: number): number {
    const { max, windowMs } = this.quotaOf(group);
    const leaving = this.counts.get(group)?.starts.map(({ at }) => at + windowMs!) ?? [];
    const instants = [now, ...leaving.filter((at) => at > now).toSorted((a, b) => a - b)];
    return instants.find((at) => this.used(group, at) + weight <= max!)! - now;
  }

  take(group: string | null, { weight, slots }: Charge, now: number, until: number | null): ModelUse {
    const count = this.count(group);
    const { max, concurrency } = this.quotaOf(group);
    const use: ModelUse = { limit: this, group, count, at: now, start: undefined, hold: undefined };
    count.latestAt = now;
    if (count.told !== null) count.told.left = Math.max(0, count.told.left - weight);
    if (max !== null) count.starts.push((use.start = { at: now, weight, expired: 0 }));
    if (concurrency !== null || this.declared.breaker !== null)
      count.holds.push((use.hold = { slots, at: now, until }));
    return use;
  }

  change(change: LimitChange, now: number): void {
    if ("quota" in change) {
      this.revision += 1;
      if (change.group === null) this.quota = { ...this.quota, ...change.quota };
      else this.groups[change.group] = { ...this.groups[change.group], ...change.quota };
    } else if ("restore" in change) {
      this.revision += 1;
      this.quota = {};
      this.groups = {};
    } else if ("paused" in change) {
      if (this.paused !== change.paused || (!change.paused && this.heldUntil !== undefined)) this.revision += 1;
      if (!change.paused) this.heldUntil = undefined;
      this.paused = change.paused;
      for (const count of change.paused ? [] : this.counts.values()) {
        Object.assign(count, { pausedUntil: 0, told: null, failures: 0, openUntil: null });
      }
    } else if ("holdMs" in change) {
      if (change.group !== null || !this.declared.byGroup) this.hold(change.group, now + change.holdMs);
      else this.heldUntil = Math.max(this.heldUntil ?? 0, now + change.holdMs);
    } else if ("remaining" in change) {
      this.#tell(this.count(change.group), change.remaining, now + change.resetMs, now);
    } else {
      if (change.group === null) this.heldUntil = undefined;
      for (const [group, count] of this.counts) {
        if (change.group !== null && change.group !== group) continue;
        this.counts.set(group, { ...emptyCount(), holds: count.holds });
      }
    }
  }

  /** One group is held, or all where the limit is not by group. */
  hold(group: string | null, until: number): void {
    const count = this.count(group);
    count.pausedUntil = Math.max(count.pausedUntil, until);
  }

  /** A job that runs holds of it from now on, if anything is held of it. */
  adopt(group: string | null, { slots }: Charge, at: number): ModelUse[] {
    if (this.quotaOf(group).concurrency === null && this.declared.breaker === null) return [];
    const hold: ModelHold = { slots, at, until: null };
    this.count(group).holds.push(hold);
    // Its start is not counted, so there is nothing to take back: the latest start may be another one, of the same instant.
    return [{ limit: this, group, count: emptyCount(), at, start: undefined, hold }];
  }

  #tell(count: Count, left: number, until: number, now: number): void {
    const before = count.told !== null && count.told.until > now ? count.told : null;
    count.told =
      before !== null && until <= before.until + 1_500
        ? { left: Math.min(before.left, left), until: Math.max(before.until, until) }
        : { left, until };
  }
}

export function emptyCount(): Count {
  return { starts: [], holds: [], latestAt: null, pausedUntil: 0, told: null, failures: 0, openUntil: null };
}

/** null: nobody knows when. */
export const finite = (wait: number): number | null => (wait === Number.POSITIVE_INFINITY ? null : wait);

/** A limit that is paused refuses all groups. */
export const labelOf = ({ limit, group }: Asked): string =>
  group === null || limit.paused ? limit.name : `${limit.name}[${group}]`;
