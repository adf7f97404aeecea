import { type Clock, systemClock } from "../core/clock.ts";
import { StorageError } from "../core/errors.ts";
import type { JobStorage } from "../storage/job-storage.ts";
import type { LimitStorage } from "../storage/limit-storage.ts";

/** The fault of one call. */
export type Fault =
  /** The call fails and has no effect. */
  | { readonly kind: "fail-before"; readonly error?: Error }
  /** The call takes effect, but its answer is lost: the caller gets an error. */
  | { readonly kind: "fail-after"; readonly error?: Error }
  /** The call takes effect so much later. */
  | { readonly kind: "delay"; readonly ms: number }
  /** The call takes effect at once, and its answer comes so much later. */
  | { readonly kind: "delay-answer"; readonly ms: number }
  /** The call has no effect, and no answer ever comes. */
  | { readonly kind: "never" };

/** The members of a storage that can be made to fail: all that answer with a promise, but for `close` and those of `rates`. */
export type FaultyMember =
  | Exclude<keyof JobStorage, "close" | "subscribe" | "rates" | "limits">
  | `limits.${keyof LimitStorage}`;

/** One call, as a plan sees it. */
export interface FaultyCall {
  readonly member: FaultyMember;
  /** The number of the call among those of this member, from 1. */
  readonly nth: number;
  /** The number of the call among all calls, from 1. */
  readonly call: number;
  readonly args: readonly unknown[];
  /** A random number from 0 to 1, the same in every run with the same `seed`. */
  readonly random: () => number;
}

/** Decides the fault of each call; undefined: none. */
export type FaultPlan = (call: FaultyCall) => Fault | undefined | void;

export interface FaultyStorageOptions {
  /** The seed of the random numbers. Default: 1. */
  readonly seed?: number;
  /** The clock for delays. Default: the system's clock. */
  readonly clock?: Clock;
}

export interface FaultyStorage extends JobStorage {
  /** All calls so far, in order, with their faults. */
  readonly calls: readonly { readonly member: FaultyMember; readonly fault: Fault | undefined }[];
  /** From now on no call has a fault. */
  heal(): void;
  /** From now on another plan holds. */
  plan(plan: FaultPlan): void;
}

/**
 * A storage that fails as networks and disks do, to test the code that uses it:
 *
 * ```ts
 * const storage = faultyStorage(new MemoryStorage(), ({ member, nth }) => {
 *   if (member === "settle" && nth === 3) return { kind: "fail-after" };
 * });
 * ```
 *
 * Closing, subscriptions and `rates` are those of the storage itself, and have no faults.
 */
export function faultyStorage(
  storage: JobStorage,
  plan: FaultPlan,
  { seed = 1, clock = systemClock }: FaultyStorageOptions = {},
): FaultyStorage {
  const calls: { member: FaultyMember; fault: Fault | undefined }[] = [];
  const counts = new Map<FaultyMember, number>();
  const random = chance(seed);
  let current: FaultPlan = plan;

  const later = (ms: number) => new Promise<void>((resolve) => clock.after(ms, resolve));

  async function through<T>(member: FaultyMember, args: readonly unknown[], happen: () => Promise<T>): Promise<T> {
    const nth = (counts.get(member) ?? 0) + 1;
    counts.set(member, nth);
    const fault = current({ member, nth, call: calls.length + 1, args, random }) ?? undefined;
    calls.push({ member, fault });
    switch (fault?.kind) {
      case undefined:
        return happen();
      case "fail-before":
        throw fault.error ?? new StorageError(`${member} failed, as planned, and nothing has happened`);
      case "fail-after":
        await happen();
        throw fault.error ?? new StorageError(`the answer of ${member} was lost, as planned`);
      case "delay":
        await later(fault.ms);
        return happen();
      case "delay-answer": {
        const answer = await happen();
        await later(fault.ms);
        return answer;
      }
      case "never":
        break;
    }
    return new Promise<T>(() => {});
  }

  return {
    calls,
    heal: () => {
      current = () => {};
    },
    plan: (other) => {
      current = other;
    },
    setup: () => through("setup", [], () => storage.setup()),
    close: () => storage.close(),
    add: (...given) => through("add", given, () => storage.add(...given)),
    claim: (request) => through("claim", [request], () => storage.claim(request)),
    confirm: (confirmations) => through("confirm", [confirmations], () => storage.confirm(confirmations)),
    settle: (outcomes) => through("settle", [outcomes], () => storage.settle(outcomes)),
    heartbeat: (leases, leaseMs) => through("heartbeat", [leases, leaseMs], () => storage.heartbeat(leases, leaseMs)),
    report: (reports) => through("report", [reports], () => storage.report(reports)),
    sweep: () => through("sweep", [], () => storage.sweep()),
    register: (workers, ttlMs, gone) =>
      through("register", [workers, ttlMs, gone], () => storage.register(workers, ttlMs, gone)),
    workers: (queue) => through("workers", [queue], () => storage.workers(queue)),
    unhandled: () => through("unhandled", [], () => storage.unhandled()),
    endings: (ids) => through("endings", [ids], () => storage.endings(ids)),
    find: (ids) => through("find", [ids], () => storage.find(ids)),
    findByKey: (queue, key) => through("findByKey", [queue, key], () => storage.findByKey(queue, key)),
    history: (id) => through("history", [id], () => storage.history(id)),
    list: (query) => through("list", [query], () => storage.list(query)),
    overview: (queue) => through("overview", [queue], () => storage.overview(queue)),
    change: (change) => through("change", [change], () => storage.change(change)),
    update: (update) => through("update", [update], () => storage.update(update)),
    setPaused: (queue, type, paused) =>
      through("setPaused", [queue, type, paused], () => storage.setPaused(queue, type, paused)),
    publish: (event) => through("publish", [event], () => storage.publish(event)),
    explain: (id) => through("explain", [id], () => storage.explain(id)),
    backlog: (queue) => through("backlog", [queue], () => storage.backlog(queue)),
    subscribe: (subscriber) => storage.subscribe(subscriber),
    limits: {
      define: (...given) => through("limits.define", given, () => storage.limits.define(...given)),
      remove: (...given) => through("limits.remove", given, () => storage.limits.remove(...given)),
      change: (...given) => through("limits.change", given, () => storage.limits.change(...given)),
      history: (query) => through("limits.history", [query], () => storage.limits.history(query)),
      read: (query) => through("limits.read", [query], () => storage.limits.read(query)),
      take: (request) => through("limits.take", [request], () => storage.limits.take(request)),
      give: (token, given) => through("limits.give", [token, given], () => storage.limits.give(token, given)),
      renew: (tokens, ttlMs) => through("limits.renew", [tokens, ttlMs], () => storage.limits.renew(tokens, ttlMs)),
    },
    rates: storage.rates,
  };
}

/** Pseudo-random numbers from 0 to 1, the same for the same seed. */
function chance(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
