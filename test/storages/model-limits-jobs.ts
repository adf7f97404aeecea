import type { JobKeys } from "../../src/core/job.ts";
import type { LimitRule } from "../../src/limits/rule.ts";
import type { ClaimLimit, ClaimRequest, JobUpdate, NewJob, Outcome } from "../../src/storage/job-storage.ts";
import { type Asked, ModelLimit, type ModelUse, NEVER } from "./model-limits-state.ts";
import { giveWeightBack, judge, release, settleUse, unstart } from "./model-limits-uses.ts";

export interface LimitedJob {
  readonly id: string;
  readonly seq: number;
  readonly queue: string;
  readonly type: string;
  priority: number;
  group: string | null;
  keys: JobKeys | undefined;
  weights: Readonly<Record<string, number>> | null;
  readonly maxAttempts: number;
  /** It was removed. */
  gone: boolean;
  state: "queued" | "active" | "ended";
  dead: boolean;
  attempt: number;
  /** When it was first due: its place, however often it backs off. */
  firstDueAt: number;
  dueAt: number;
  startedAt: number;
  leaseUntil: number;
  token: number;
  cancelRequested: boolean;
  /** A sweep took its latest lease away. */
  stalled: boolean;
  uses: ModelUse[];
}

interface Lane {
  readonly queue: string;
  readonly type: string;
  readonly priority: number;
  readonly group: string | null;
  readonly keys: JobKeys | undefined;
  turn: number;
  /** The latest turn that is certain: a claim that met no groups need not have been one of the jobs without a group. */
  sure: number;
}

/** What a claim must answer. */
export interface Expected {
  readonly started: readonly LimitedJob[];
  readonly more: boolean;
  readonly nextInMs: number | null;
}

type OfLane = Pick<LimitedJob, "queue" | "type" | "priority" | "group" | "keys">;

export const isSameLane = (a: OfLane, b: OfLane): boolean =>
  a.queue === b.queue &&
  a.type === b.type &&
  a.priority === b.priority &&
  a.group === b.group &&
  a.keys?.["tenant"] === b.keys?.["tenant"] &&
  a.keys?.["model"] === b.keys?.["model"];

const latestOf = (lanes: readonly Lane[]): Pick<Lane, "turn" | "sure"> => ({
  turn: Math.max(0, ...lanes.map(({ turn }) => turn)),
  sure: Math.max(0, ...lanes.map(({ sure }) => sure)),
});

/** Jobs under limits: what the contract says, as a search through everything for every question. */
export class LimitModel {
  now: number;
  readonly limits = new Map<string, ModelLimit>();
  /** Limits that claims bring along: one log for each name. */
  readonly brought = new Map<string, ModelLimit>();
  readonly jobs: LimitedJob[] = [];
  readonly lanes: Lane[] = [];
  /** Queues, and types as `queue/type`. */
  readonly paused = new Set<string>();
  #turns = 0;

  constructor(now: number) {
    this.now = now;
  }

  define(rule: LimitRule): void {
    const before = this.limits.get(rule.name);
    if (before === undefined) {
      const limit = new ModelLimit(rule);
      this.limits.set(rule.name, limit);
      for (const job of this.jobs) {
        if (job.state !== "active" || !limit.applies(job.queue, job.type)) continue;
        job.uses.push(...limit.adopt(limit.valueOf(job), limit.charge(job.weights), job.startedAt));
      }
    } else if (JSON.stringify(before.declared) !== JSON.stringify(rule)) {
      // Numbers that were set by hand are older than those.
      if (JSON.stringify(before.declared.quota) !== JSON.stringify(rule.quota)) before.quota = {};
      before.declared = rule;
      before.revision += 1;
    }
  }

  /** False: one of them can never fit, and none is added. */
  add(jobs: readonly NewJob[]): boolean {
    for (const { queue, type, group, keys, weights } of jobs) {
      for (const limit of this.#kept(queue, type)) {
        if (limit.declared.weight === null) continue;
        if (limit.most(limit.valueOf({ group, keys }), limit.charge(weights)) !== null) return false;
      }
    }
    for (const { id, queue, type, priority, group, keys, weights, maxAttempts, due } of jobs) {
      const dueAt = this.now + (due as { inMs: number }).inMs;
      const seq = this.jobs.length;
      const fresh = {
        state: "queued",
        dead: false,
        attempt: 0,
        startedAt: 0,
        leaseUntil: 0,
        token: 0,
        stalled: false,
        gone: false,
      } as const;
      const said = { id, seq, queue, type, priority, group, keys, weights, maxAttempts };
      this.jobs.push({ ...said, ...fresh, firstDueAt: dueAt, dueAt, cancelRequested: false, uses: [] });
      this.#openLane(this.jobs.at(-1)!);
    }
    return true;
  }

  /** Once it is due. */
  #openLane(job: LimitedJob): void {
    const { queue, type, priority, group, keys } = job;
    if (job.dueAt > this.now || this.lanes.some((one) => isSameLane(one, job))) return;
    const unit = this.lanes.filter((one) => one.queue === queue && one.priority === priority && one.group === group);
    // Turns are had by groups with types, whatever the keys.
    const { turn, sure } = unit.find((one) => one.type === type) ?? latestOf(unit);
    this.lanes.push({ queue, type, priority, group, keys, turn, sure });
  }

  #lane(job: LimitedJob): Lane | undefined {
    this.#openLane(job);
    return this.lanes.find((one) => isSameLane(one, job));
  }

  isPaused({ queue, type }: Pick<LimitedJob, "queue" | "type">): boolean {
    return this.paused.has(queue) || this.paused.has(`${queue}/${type}`);
  }

  /** False: it can never fit. */
  update(job: LimitedJob, set: JobUpdate["set"]): boolean {
    const { due, keys = job.keys, ...rest } = set;
    const plain = { ...rest, keys: keys ?? undefined };
    for (const limit of this.#kept(job.queue, job.type)) {
      const after = { ...job, ...plain };
      if (limit.declared.weight === null) continue;
      if (limit.most(limit.valueOf(after), limit.charge(after.weights)) !== null) return false;
    }
    Object.assign(job, plain);
    if (due !== undefined) job.dueAt = job.firstDueAt = this.now + (due as { inMs: number }).inMs;
    this.#openLane(job);
    return true;
  }

  act(action: "retry" | "remove" | "promote", job: LimitedJob): boolean {
    if (job.gone || job.state === "active") return false;
    if (action === "remove") {
      Object.assign(job, { state: "ended", gone: true, stalled: false });
      return true;
    }
    if (action === "promote") {
      if (job.state !== "queued" || job.dueAt <= this.now) return false;
      if (job.firstDueAt === job.dueAt) job.firstDueAt = this.now;
      job.dueAt = this.now;
    } else {
      if (job.state !== "ended") return false;
      const fresh = { state: "queued", attempt: 0, cancelRequested: false, dead: false, stalled: false } as const;
      Object.assign(job, { ...fresh, firstDueAt: this.now, dueAt: this.now });
    }
    this.#openLane(job);
    return true;
  }

  /** Limits in the order in which they are asked: those for all by name, what the claim brings along, those by group. */
  #kept(queue: string, type: string, brought: readonly ClaimLimit[] = []): ModelLimit[] {
    const kept = [...this.limits.values()]
      .filter((limit) => limit.applies(queue, type))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1));
    return [
      ...kept.filter(({ declared }) => !declared.byGroup),
      ...brought.map((limit) => this.#broughtBy(limit)),
      ...kept.filter(({ declared }) => declared.byGroup),
    ];
  }

  #broughtBy({ key, max, windowMs }: ClaimLimit): ModelLimit {
    const quota = { max, windowMs, concurrency: null, everyMs: null };
    const about = { types: null, queues: null, byGroup: false, groups: {}, weight: null, estimate: 1 };
    const limit = this.brought.get(key) ?? new ModelLimit({ name: key, quota, ...about, breaker: null, paused: false });
    this.brought.set(key, limit);
    limit.quota = { max, windowMs };
    return limit;
  }

  ask(job: LimitedJob, brought: readonly ClaimLimit[] = []): Asked[] {
    return this.#kept(job.queue, job.type, brought).map((limit) => {
      const group = limit.valueOf(job);
      const charge = limit.charge(job.weights);
      return { limit, group, charge, wait: limit.wait(group, charge, this.now) };
    });
  }

  waiting(request: Pick<ClaimRequest, "queue" | "types">): LimitedJob[] {
    const { queue, types } = request;
    return this.jobs.filter(
      (job) =>
        !this.isPaused(job) &&
        job.state === "queued" &&
        job.queue === queue &&
        job.dueAt <= this.now &&
        (types?.includes(job.type) ?? true),
    );
  }

  /** Paused or not. */
  due(queue: string): LimitedJob[] {
    return this.jobs.filter((job) => job.state === "queued" && job.queue === queue && job.dueAt <= this.now);
  }

  /** Does somebody wait under this limit, or may somebody have done so a moment ago? */
  isAwaited(limit: ModelLimit, group: string | null): boolean {
    return this.jobs.some(
      (job) => job.state === "queued" && limit.applies(job.queue, job.type) && limit.valueOf(job) === group,
    );
  }

  /** The job whose turn it is, of these. `said`: who starts in the storage, where the order is open; else who came first. */
  next(jobs: readonly LimitedJob[], said?: string): LimitedJob | undefined {
    const priority = Math.max(...jobs.map((job) => job.priority));
    const first = jobs.filter((job) => job.priority === priority);
    // The lane that was served the longest ago ranks its group, of whatever type the job is that starts; not one that is blocked.
    const unblocked = first.filter((job) => !this.#isBlocked(job));
    const ranked = unblocked.length === 0 ? first : unblocked;
    const [lane] = [...new Set(ranked.map((job) => this.#lane(job)!))].toSorted(
      (a, b) => a.turn - b.turn || this.lanes.indexOf(a) - this.lanes.indexOf(b),
    );
    const named = first.find(({ id }) => id === said);
    const isTied = ranked.some((job) => job.group === named?.group && this.#lane(job)!.sure <= lane!.turn);
    const { group } = named !== undefined && isTied ? named : lane!;
    return first
      .filter((job) => job.group === group)
      .toSorted((a, b) => a.firstDueAt - b.firstDueAt || a.seq - b.seq)[0];
  }

  /** Does a limit by group refuse it? */
  #isBlocked(job: LimitedJob): boolean {
    return this.ask(job).some(({ limit, wait }) => limit.declared.byGroup && !limit.paused && wait > 0);
  }

  /** Without groups of their priority, lanes that differ only in their keys have no turns: they go on in the order of their jobs. */
  #takesTurns({ queue, type, priority, group }: LimitedJob): boolean {
    const others = this.lanes.filter((lane) => lane.queue === queue && lane.priority === priority);
    const own = others.filter((lane) => lane.type === type && lane.group === group);
    return own.length === 1 || others.some((lane) => lane.group !== null);
  }

  start(job: LimitedJob, request: ClaimRequest, asked: readonly Asked[]): void {
    const { types, leaseMs } = request;
    const sure = this.waiting(request).some(({ group }) => group !== null);
    job.state = "active";
    job.attempt += 1;
    job.stalled = false;
    job.startedAt = this.now;
    job.leaseUntil = this.now + leaseMs;
    job.uses = asked.map(({ limit, group, charge }) => limit.take(group, charge, this.now, null));
    if (!this.#takesTurns(job)) return;
    this.#turns += 1;
    for (const lane of this.lanes) {
      const unit = lane.queue === job.queue && lane.priority === job.priority && lane.group === job.group;
      if (!unit || !(types?.includes(lane.type) ?? true)) continue;
      lane.turn = this.#turns;
      if (sure) lane.sure = this.#turns;
    }
  }

  /** What a claim does, and what it says. `said`: who starts in the storage, in order. */
  claim(request: ClaimRequest, withOutlook = true, said: readonly string[] = []): Expected {
    for (const job of this.jobs) if (job.state === "queued") this.#openLane(job);
    const started: LimitedJob[] = [];
    const closed = new Set<ModelLimit>();
    const passed = new Set<Lane>();
    const answer = (more: boolean): Expected => ({
      started,
      more,
      nextInMs: more ? 0 : withOutlook ? this.nextIn(request) : null,
    });
    for (;;) {
      const open = this.waiting(request).filter(
        (job) =>
          !passed.has(this.#lane(job)!) &&
          !this.#kept(job.queue, job.type, request.limits).some((one) => closed.has(one)),
      );
      if (open.length === 0) return answer(false);
      const job = this.next(open, said[started.length])!;
      const asked = this.ask(job, request.limits);
      const longest = asked.reduce(
        (wait, one) => (wait === NEVER || one.wait === NEVER ? NEVER : Math.max(wait, one.wait)),
        0,
      );
      if (longest === 0) {
        if (started.length === request.max) return answer(true);
        this.start(job, request, asked);
        started.push(job);
        continue;
      }
      const by = asked.find(({ wait }) => wait === longest)!;
      if (longest === NEVER) {
        Object.assign(job, { state: "ended", dead: true });
        continue;
      }
      // Of a limit that is paused no group starts anything: all types under it are passed over.
      if (by.limit.declared.byGroup && !by.limit.paused) passed.add(this.#lane(job)!);
      else closed.add(by.limit);
    }
  }

  /** When would a claim like this start something, if nothing else happened? It is tried at every instant in question. */
  nextIn(request: ClaimRequest, atOnce = false): number | null {
    const { queue, types, limits } = request;
    const tried = this.#clone();
    if (atOnce && tried.claim({ ...request, max: 1 }, false).started.length > 0) return 0;
    for (let i = 0; i < 200; i++) {
      const own = tried.jobs.filter(
        (job) =>
          job.state === "queued" && !tried.isPaused(job) && job.queue === queue && (types?.includes(job.type) ?? true),
      );
      const asked = own.flatMap((job) => tried.ask(job, limits));
      const instants = [...own.map((job) => job.dueAt - tried.now), ...asked.map(({ wait }) => wait)];
      const next = Math.min(Number.POSITIVE_INFINITY, ...instants.filter((wait) => wait > 0));
      if (next === Number.POSITIVE_INFINITY) return null;
      tried.now += next;
      const { started } = tried.claim({ ...request, max: 1 }, false);
      if (started.length > 0) return tried.now - this.now;
    }
    throw new Error("there is always another instant, and nothing ever starts");
  }

  #clone(): LimitModel {
    const copy = new LimitModel(this.now);
    for (const [name, limit] of this.limits) copy.limits.set(name, limit.clone());
    for (const [name, limit] of this.brought) copy.brought.set(name, limit.clone());
    for (const job of this.jobs) copy.jobs.push({ ...job });
    for (const lane of this.lanes) copy.lanes.push({ ...lane });
    for (const one of this.paused) copy.paused.add(one);
    return copy;
  }

  held({ id, token }: { readonly id: string; readonly token: number }): LimitedJob | undefined {
    return this.jobs.find((job) => job.id === id && job.state === "active" && job.token === token);
  }

  settle(outcomes: readonly Outcome[]): string[] {
    return outcomes.filter((outcome) => !this.#settleOne(outcome)).map(({ id }) => id);
  }

  #settleOne(outcome: Outcome): boolean {
    const job = this.held(outcome);
    if (job === undefined) {
      this.#unspend(outcome);
      return false;
    }
    for (const use of job.uses) {
      release(use);
      if (outcome.to === "completed") judge(use, false, this.now);
      if (outcome.to === "retry" || outcome.to === "dead") judge(use, true, this.now);
      if (outcome.to !== "back") continue;
      if (outcome.unstarted) unstart(use);
      else if (outcome.held) giveWeightBack(use, outcome.settled ?? [], this.now);
    }
    if (outcome.to === "back") {
      job.attempt -= 1;
      this.#hold(job, outcome.hold);
    }
    const ends =
      outcome.to === "completed" || outcome.to === "dead" || outcome.to === "cancelled" || job.cancelRequested;
    job.state = ends ? "ended" : "queued";
    job.uses = [];
    if ((outcome.to === "retry" || outcome.to === "back") && outcome.inMs > 0) job.dueAt = this.now + outcome.inMs;
    return true;
  }

  /** What was never started gets its attempt back, though its lease ran out. */
  #unspend(outcome: Outcome): void {
    if (outcome.to !== "back" || !outcome.unstarted) return;
    const job = this.jobs.find(({ id, token, stalled }) => id === outcome.id && token === outcome.token && stalled);
    if (job === undefined || job.dead || job.cancelRequested) return;
    Object.assign(job, { stalled: false, attempt: job.attempt - 1, state: "queued" });
  }

  #hold(job: LimitedJob, hold: Extract<Outcome, { to: "back" }>["hold"]): void {
    if (hold === null) return;
    for (const limit of this.limits.values()) {
      const inScope = hold.scope && limit.applies(job.queue, job.type) && !limit.declared.byGroup;
      if (!inScope && !hold.names.includes(limit.name)) continue;
      limit.hold(limit.valueOf(job), this.now + hold.forMs);
    }
  }

  report(job: LimitedJob, weights: Readonly<Record<string, number>>): void {
    for (const use of job.uses) {
      const { weight } = use.limit.declared;
      if (weight !== null && weight in weights) settleUse(use, weights[weight]!, this.now);
    }
  }

  sweep(): number {
    const stalled = this.jobs.filter((job) => job.state === "active" && job.leaseUntil <= this.now);
    for (const job of stalled) {
      for (const use of job.uses) {
        release(use);
        judge(use, true, this.now);
      }
      job.uses = [];
      job.stalled = true;
      job.state = job.cancelRequested || job.attempt >= job.maxAttempts ? "ended" : "queued";
    }
    return stalled.length;
  }
}
