import type { Seeded } from "../../../chaos/conductor/seeded.ts";
import type { LimitRule } from "../../../src/limits/rule.ts";
import type { JobStorage, Lease, NewJob, Outcome } from "../../../src/storage/job-storage.ts";
import type { LimitChange } from "../../../src/storage/limit-storage.ts";
import { newJob, rule } from "./support.ts";

/** All kinds of limits hold for two of the queues, one of the simplest kind for a third, none for the last. */
export const RULES: readonly LimitRule[] = [
  rule("all", { concurrency: 12 }, { queues: ["q", "r", "s"] }),
  rule("window", { max: 60, windowMs: 100 }, { types: ["a", "b"], queues: ["q", "r"] }),
  rule("tokens", { max: 200, windowMs: 150 }, { weight: "n", estimate: 2, types: ["b", "c"], queues: ["q", "r"] }),
  rule("tenant", { max: 30, windowMs: 80, concurrency: 5 }, { byGroup: true, queues: ["q", "r"] }),
  rule("memory", { concurrency: 20 }, { weight: "m", types: ["c"], queues: ["q", "r"] }),
];
const NAMES = RULES.map(({ name }) => name);
export const QUEUES = ["q", "r", "s", "t"];
const TYPES = ["a", "b", "c", "d"];
const GROUPS = [null, null, "g", "h", "i"];
const ERROR = { name: "Error", message: "it broke" };

/** The ids that all actors share. */
export class SharedIds {
  /** Jobs that a call has reported as added. */
  readonly added = new Set<string>();
  readonly removed = new Set<string>();
  /** Those that may have been replaced by others. */
  readonly keyed = new Set<string>();
}

/** Does everything that can be done to a storage, at random, over names that it shares with other actors. */
export class Actor {
  readonly storage: JobStorage;
  readonly #name: string;
  readonly #shared: SharedIds;
  readonly #random: Seeded;
  readonly #leases: Lease[] = [];
  readonly #permits: string[] = [];

  constructor(name: string, storage: JobStorage, shared: SharedIds, random: Seeded) {
    this.#name = name;
    this.storage = storage;
    this.#shared = shared;
    this.#random = random;
  }

  async act(): Promise<void> {
    await this.#one(STEPS)(this);
  }

  /** Gives back all that it holds. */
  async leave(): Promise<void> {
    await this.storage.settle(this.#some(this.#leases, Number.POSITIVE_INFINITY).map((lease) => this.#outcome(lease)));
    for (const token of this.#permits.splice(0)) await this.storage.limits.give(token, "released");
  }

  #one<T>(from: readonly T[]): T {
    return this.#random.pick(from)!;
  }

  #upTo(most: number): number {
    return this.#random.integer(0, most);
  }

  #chance(probability: number): boolean {
    return this.#random.chance(probability);
  }

  /** Takes some out, from anywhere. */
  #some<T>(from: T[], most: number): T[] {
    const some: T[] = [];
    while (some.length < most && from.length > 0) some.push(...from.splice(this.#upTo(from.length - 1), 1));
    return some;
  }

  #job(): NewJob {
    const later = this.#chance(0.1);
    const queue = this.#one(QUEUES);
    // Where no job with a group waits, claims take another path.
    const grouped = queue === "q" || queue === "r" || this.#chance(0.03);
    return newJob({
      queue,
      type: this.#one(TYPES),
      group: grouped ? this.#one(GROUPS) : null,
      priority: this.#one([0, 0, 0, 3, -1]),
      due: { inMs: later ? this.#upTo(50) : 0 },
      weights: this.#chance(0.5) ? { n: this.#upTo(20), m: 1 + this.#upTo(4) } : null,
      maxAttempts: 1_000,
      keepFor: 3_600_000,
    });
  }

  #outcome(lease: Lease): Outcome {
    const inMs = this.#upTo(20);
    const hold = this.#chance(0.1) ? { names: [this.#one(NAMES)], scope: this.#chance(0.5), forMs: inMs } : null;
    return this.#one<Outcome>([
      { ...lease, to: "completed", result: null },
      { ...lease, to: "completed", result: "1" },
      { ...lease, to: "retry", inMs, error: ERROR },
      { ...lease, to: "dead", error: ERROR },
      { ...lease, to: "cancelled", error: null },
      { ...lease, to: "back", inMs, held: false, error: null, hold, unstarted: this.#chance(0.5) },
    ]);
  }

  async add(many: number): Promise<void> {
    const jobs = Array.from({ length: 1 + this.#upTo(many) }, () => {
      const job = this.#job();
      if (this.#chance(0.5)) return job;
      const key = `k${this.#upTo(40)}`;
      const onDuplicate = this.#chance(0.8) ? "return" : "replace";
      return { ...job, idempotency: { key, fingerprint: "f", ttlMs: 20 + this.#upTo(200), onDuplicate } as const };
    });
    try {
      const added = await this.storage.add(jobs);
      for (const [i, { id }] of added.entries()) {
        this.#shared.added.add(id);
        if ("idempotency" in jobs[i]! && jobs[i].idempotency !== null) this.#shared.keyed.add(id);
      }
    } catch (error) {
      // The job that has the key runs: it is not replaced, and none of these is added.
      if ((error as { readonly code?: unknown }).code !== "SLUICE_DUPLICATE") throw error;
    }
  }

  async claim(settles: boolean): Promise<void> {
    const limits = this.#chance(0.3) ? [{ key: this.#one(["outer", "window"]), max: 80, windowMs: 100 }] : [];
    const types = this.#chance(0.3) ? [this.#one(TYPES), this.#one(TYPES)] : null;
    const settle = settles ? this.#some(this.#leases, 6).map((lease) => this.#outcome(lease)) : [];
    const { jobs } = await this.storage.claim({
      queue: this.#one(QUEUES),
      worker: this.#name,
      max: this.#upTo(8),
      types: types === null ? null : [...new Set(types)],
      leaseMs: this.#chance(0.1) ? 20 : 60_000,
      limits,
      settle,
    });
    for (const { id, token } of jobs) this.#leases.push({ id, token });
  }

  async settle(): Promise<void> {
    await this.storage.settle(this.#some(this.#leases, 8).map((lease) => this.#outcome(lease)));
  }

  async heartbeat(): Promise<void> {
    const { lost } = await this.storage.heartbeat(this.#leases, 60_000);
    for (const id of lost) {
      const index = this.#leases.findIndex((lease) => lease.id === id);
      if (index >= 0) this.#leases.splice(index, 1);
    }
  }

  async report(): Promise<void> {
    const some = this.#leases.slice(0, 5);
    await this.storage.report(
      some.map(({ id, token }) => ({
        id,
        token,
        progress: { percent: this.#upTo(99) },
        weights: { n: this.#upTo(30) },
      })),
    );
  }

  async change(): Promise<void> {
    const action = this.#one(["cancel", "cancel", "retry", "promote", "remove"] as const);
    const queue = this.#one(QUEUES);
    const ids = [...this.#shared.added].slice(-20);
    const where = {
      states: ["waiting", "dead", "cancelled"],
      type: this.#one(TYPES),
      group: null,
      endedForMs: null,
    } as const;
    const changed = await this.storage.change(
      this.#chance(0.5) ? { action, queue, ids } : { action, queue, where, limit: 5 },
    );
    if (action === "remove") for (const id of changed) this.#shared.removed.add(id);
  }

  async permit(): Promise<void> {
    const name = this.#one(NAMES);
    const request = { name, group: this.#one(GROUPS), weight: null, ttlMs: 60_000 };
    const taken = await this.storage.limits.take(request).catch(unlessGone);
    if (taken?.granted) this.#permits.push(taken.token);
    if (this.#permits.length > 3) {
      await this.storage.limits.renew(this.#permits, 60_000);
      for (const token of this.#some(this.#permits, 3)) {
        await this.storage.limits.give(token, this.#one(["released", "cancelled"] as const));
      }
    }
  }

  async limit(): Promise<void> {
    const name = this.#one(NAMES);
    const changes: readonly LimitChange[] = [
      { quota: { concurrency: 5 + this.#upTo(20) }, group: null },
      { restore: true },
      { paused: true },
      { paused: false },
      { paused: false },
      { holdMs: this.#upTo(20), group: null },
      { remaining: this.#upTo(50), resetMs: this.#upTo(30), group: null },
      { reset: true, group: null },
    ];
    await this.storage.limits.change(name, this.#one(changes)).catch(unlessGone);
    if (this.#chance(0.3)) await this.storage.limits.change(name, { paused: false }).catch(unlessGone);
    if (this.#chance(0.05)) await this.storage.limits.remove(name);
    if (this.#chance(0.2)) await this.storage.limits.define(RULES);
  }

  async rate(): Promise<void> {
    const name = this.#one(["outer", "window", "tenant"]);
    const window = { maxExecutions: 80, windowMs: 100, weight: 1 + this.#upTo(3) };
    const { token } = await this.storage.rates.tryRecordExecution(name, window);
    if (token === undefined) return;
    if (this.#chance(0.5)) await this.storage.rates.settleExecution(name, token, this.#upTo(5));
    else await this.storage.rates.cancelExecution(name, token);
  }

  async pause(): Promise<void> {
    const type = this.#one([null, ...TYPES]);
    const queue = this.#one(QUEUES);
    await this.storage.setPaused(queue, type, true);
    await this.storage.setPaused(queue, type, false);
  }

  async look(): Promise<void> {
    await this.storage.overview();
    await this.storage.limits.read({ name: null, group: null });
    const [id] = this.#shared.added;
    if (id !== undefined) await this.storage.explain(id);
    await this.storage.backlog(this.#one(QUEUES));
  }
}

type Step = (actor: Actor) => Promise<unknown>;

/** Often what workers do, seldom what people do. */
const STEPS: readonly Step[] = [
  ...times(6, (actor) => actor.add(5)),
  (actor) => actor.add(60),
  ...times(10, (actor) => actor.claim(true)),
  ...times(4, (actor) => actor.claim(false)),
  ...times(5, (actor) => actor.settle()),
  ...times(3, (actor) => actor.heartbeat()),
  ...times(2, (actor) => actor.report()),
  ...times(2, (actor) => actor.storage.sweep()),
  ...times(3, (actor) => actor.change()),
  ...times(3, (actor) => actor.permit()),
  ...times(2, (actor) => actor.limit()),
  ...times(3, (actor) => actor.rate()),
  (actor) => actor.pause(),
  (actor) => actor.look(),
];

function times(many: number, step: Step): Step[] {
  return Array.from({ length: many }, () => step);
}

/** Another actor may have removed the limit. */
function unlessGone(error: unknown): undefined {
  if ((error as { readonly code?: unknown }).code !== "SLUICE_LIMIT_NOT_FOUND") throw error;
}
