import { expect } from "vitest";
import type { ClaimRequest, JobStorage, Outcome } from "../../src/storage/job-storage.ts";
import type { LimitChange } from "../../src/storage/limit-storage.ts";
import type { FakeClock } from "../../src/testing/index.ts";
import { newJob } from "./jobs.ts";
import { type Both, checkClaim, checkCounts, checkStanding, follow, freeNow } from "./model-limits-checks.ts";
import { LimitModel } from "./model-limits-jobs.ts";
import { type Act, type Life, LONGEST_MS, type OutcomeAct, QUEUES, WEIGHT } from "./model-limits-life.ts";
import { finite, type ModelUse } from "./model-limits-state.ts";
import { release, settleUse, unstart } from "./model-limits-uses.ts";

/** After this nothing counts any more, and what is not used is forgotten. */
const LONG_MS = 7_200_000;

interface Permit {
  readonly token: string;
  readonly use: ModelUse;
  readonly expiresAt: number;
  /** How long its start is in the window. */
  readonly windowMs: number;
  ended: "released" | "cancelled" | undefined;
}

const WORKER: ClaimRequest = {
  queue: QUEUES[0]!,
  worker: "w",
  max: 50,
  types: null,
  leaseMs: 1_000,
  limits: [],
  settle: [],
};

const nameOf = ({ queue, types }: ClaimRequest): string => JSON.stringify([queue, types]);

/** A worker that has claimed and sleeps until then, unless it is woken up. */
interface Sleeper {
  readonly request: ClaimRequest;
  readonly until: number;
  readonly blockedBy: string | null;
}

/** Lives a life on a storage and on the model, and compares after every act. */
export class Player {
  readonly #life: Life;
  readonly #storage: JobStorage;
  readonly #clock: FakeClock;
  readonly #model: LimitModel;
  readonly #permits: Permit[] = [];
  readonly #sleepers = new Map<string, Sleeper>();
  readonly #leases: { readonly id: string; readonly token: number }[] = [];

  get #both(): Both {
    return { model: this.#model, storage: this.#storage };
  }

  constructor(life: Life, storage: JobStorage, clock: FakeClock) {
    this.#life = life;
    this.#storage = storage;
    this.#clock = clock;
    this.#model = new LimitModel(clock.wall());
  }

  async play(): Promise<void> {
    const { rules, acts, worker } = this.#life;
    await this.#storage.limits.define(rules);
    for (const rule of rules) this.#model.define(rule);
    const stops = QUEUES.map((queue) => this.#storage.subscribe({ queue, wake: (may) => this.#heard(queue, may) }));
    for (const act of acts) {
      await this.#act(act);
      await checkCounts(this.#both);
      await this.#checkWakeUps(act);
      if (worker && !this.#sleepers.has(nameOf(WORKER))) await this.#claim(WORKER);
    }
    for (const stop of stops) stop();
    await this.#end();
  }

  async #act(act: Act): Promise<void> {
    const model = this.#model;
    const storage = this.#storage;
    switch (act.act) {
      case "add": {
        const first = model.jobs.length;
        const jobs = act.jobs.map(({ inMs, ...job }, i) =>
          newJob({ ...job, due: { inMs }, id: `j${first + i}`, keepFor: 1e10 }),
        );
        const answer = await storage.add(jobs).then(
          () => true,
          (error: unknown) => (error as { code: string }).code,
        );
        expect(answer).toBe(model.add(jobs) || "SLUICE_OPTIONS");
        return;
      }
      case "claim": {
        const { queue, max, types, leaseMs, brought } = act;
        const limits = brought === null ? [] : [{ ...brought, windowMs: 200 }];
        const settle = act.settle.flatMap((one) => this.#outcome(one));
        return this.#claim({ queue, worker: "w", max, types, leaseMs, limits, settle });
      }
      case "settle": {
        const outcomes = act.outcomes.flatMap((one) => this.#outcome(one));
        expect(await storage.settle(outcomes)).toEqual(model.settle(outcomes));
        return;
      }
      case "report": {
        const lease = this.#lease(act.lease, false);
        if (lease === undefined) return;
        const job = model.held(lease);
        const weights = { [WEIGHT]: act.used };
        expect(await storage.report([{ ...lease, weights }])).toEqual(job === undefined ? [lease.id] : []);
        if (job !== undefined) model.report(job, weights);
        return;
      }
      case "sweep":
        expect((await storage.sweep()).stalled).toBe(model.sweep());
        return;
      case "advance":
        await this.#advance(act.by);
        return;
      case "cancel": {
        const job = model.jobs[act.job % model.jobs.length];
        if (job === undefined || job.gone) return;
        await storage.change({ action: "cancel", queue: job.queue, ids: [job.id] });
        if (job.state === "active") job.cancelRequested = true;
        // After that a start that never was gives nothing back.
        if (job.state === "queued") Object.assign(job, { state: "ended", stalled: false });
        return;
      }
      case "change":
        return this.#change(act.name, act.change);
      case "resume":
        return this.#change(act.name, { paused: false });
      case "declare":
        return this.#declare(act.rule, act.remove, act.max);
      case "take":
        return this.#take(act);
      case "give":
        return this.#give(act);
      case "renew": {
        const permits = act.permits.flatMap((pick) => this.#permits[pick % this.#permits.length] ?? []);
        // What holds nothing has nothing to be renewed; and of what was removed nobody says what becomes.
        const asked = permits.filter(
          ({ use }) => use.hold !== undefined && model.limits.get(use.limit.name) === use.limit,
        );
        const holding = asked.filter((one) => this.#holds(one));
        const lost = await storage.limits.renew(
          asked.map(({ token }) => token),
          act.ttlMs,
        );
        expect(lost).toEqual(asked.filter((one) => !holding.includes(one)).map(({ token }) => token));
        for (const { use } of holding) use.hold!.until = model.now + act.ttlMs;
        return;
      }
      case "update": {
        const job = model.jobs[act.job % model.jobs.length];
        if (job === undefined || job.gone) return;
        const { set } = act;
        const answer = await storage.update({ queue: job.queue, id: job.id, set }).then(
          ({ updated }) => updated,
          (error: unknown) => (error as { code: string }).code,
        );
        expect(answer).toBe(job.state === "queued" && (model.update(job, set) || "SLUICE_OPTIONS"));
        return;
      }
      case "pause": {
        const { queue, type, paused } = act;
        await storage.setPaused(queue, type, paused);
        const name = type === null ? queue : `${queue}/${type}`;
        if (paused) model.paused.add(name);
        else model.paused.delete(name);
        return;
      }
      case "do": {
        const job = model.jobs[act.job % model.jobs.length];
        if (job === undefined) return;
        const answer = await storage.change({ action: act.action, queue: job.queue, ids: [job.id] });
        expect(answer.length > 0).toBe(model.act(act.action, job));
        return;
      }
      case "explain": {
        const waiting = model.jobs.filter((job) => job.state === "queued");
        const job = waiting[act.job % waiting.length];
        if (job !== undefined) await checkStanding(this.#both, job);
      }
    }
  }

  #heard(queue: string, mayStart: boolean): void {
    for (const [name, one] of this.#sleepers) {
      if (one.request.queue === queue && (mayStart || one.blockedBy === null)) this.#sleepers.delete(name);
    }
  }

  /** Does a worker sleep though it could start something before it wakes up? */
  async #checkWakeUps(act: Act): Promise<void> {
    const weighed = this.#life.rules.some(({ weight }) => weight !== null);
    for (const [name, { request, until, blockedBy }] of this.#sleepers) {
      if (until <= this.#model.now) this.#sleepers.delete(name);
      const next = weighed ? (freeNow(this.#model, request).length > 0 ? 0 : null) : this.#model.nextIn(request, true);
      if (next === null || this.#model.now + next >= until) continue;
      // A notification may be on its way.
      for (let i = 0; i < 5_000 && this.#sleepers.has(name); i++) await new Promise((done) => setTimeout(done, 1));
      const what = `${name} sleeps for ${until - this.#model.now}, could start in ${next}, blocked by ${blockedBy}`;
      if (this.#sleepers.has(name)) throw new Error(`no wake-up after ${JSON.stringify(act)}: ${what}`);
    }
  }

  async #advance(by: number): Promise<void> {
    await this.#clock.advance(by);
    this.#model.now += by;
  }

  /** A lease that holds; or any there ever was. */
  #lease(pick: number, stale: boolean) {
    const holding = this.#leases.filter((lease) => this.#model.held(lease) !== undefined);
    const from = stale || holding.length === 0 ? this.#leases : holding;
    return from[pick % from.length];
  }

  #outcome({ lease: pick, stale, to, inMs, hold, unstarted, held, settled }: OutcomeAct): Outcome[] {
    const lease = this.#lease(pick, stale === 0);
    if (lease === undefined) return [];
    const error = { name: "Error", message: "it broke" };
    switch (to) {
      case "completed":
        return [{ ...lease, to, result: null }];
      case "dead":
        return [{ ...lease, to, error }];
      case "cancelled":
        return [{ ...lease, to, error: null }];
      case "retry":
        return [{ ...lease, to, inMs, error }];
      case "back": {
        // What is held under a name before a limit has it is another story.
        const names = hold?.names.filter((name) => this.#model.limits.has(name)) ?? [];
        return [{ ...lease, to, inMs, held, settled, error: null, hold: hold && { ...hold, names }, unstarted }];
      }
      default:
        throw new Error(`no such outcome: ${String(to)}`);
    }
  }

  async #claim(request: ClaimRequest): Promise<void> {
    const model = this.#model;
    const name = nameOf(request);
    this.#sleepers.delete(name);
    const answer = await this.#storage.claim(request);
    if (!answer.more && request.limits.length === 0) {
      const until = answer.nextInMs === null ? Number.POSITIVE_INFINITY : model.now + answer.nextInMs;
      this.#sleepers.set(name, { request: { ...request, settle: [] }, until, blockedBy: answer.blockedBy });
    }
    expect(answer.stale).toEqual(model.settle(request.settle));
    const { kind, rules } = this.#life;
    // Where jobs are weighed, what others have waited for since an earlier claim decides as well.
    const weighed = rules.some(({ weight }) => weight !== null);
    if (kind === "mixed" || kind === "mixed keys" || weighed) await follow(this.#both, request, answer, weighed);
    else await checkClaim(this.#both, request, answer, kind === "general");
    for (const { id, token } of answer.jobs) {
      model.jobs.find((job) => job.id === id)!.token = token;
      this.#leases.push({ id, token });
    }
  }

  async #change(name: string, change: LimitChange): Promise<void> {
    const limit = this.#model.limits.get(name);
    if (limit === undefined) return;
    const { quota, byGroup } = limit.declared;
    // Which kinds of numbers a rule has stays as it is: what was not counted before is another story.
    if ("quota" in change && Object.keys(change.quota).some((key) => quota[key as keyof typeof quota] === null)) return;
    const said = "group" in change && !byGroup ? { ...change, group: null } : change;
    await this.#storage.limits.change(name, said);
    limit.change(said, this.#model.now);
  }

  async #declare(pick: number, remove: boolean, max: number): Promise<void> {
    const rule = this.#life.rules[pick % this.#life.rules.length]!;
    const { name, quota } = rule;
    const model = this.#model;
    if (remove) {
      expect(await this.#storage.limits.remove(name)).toBe(model.limits.delete(name));
      return;
    }
    const anew = quota.max === null ? rule : { ...rule, quota: { ...quota, max } };
    await this.#storage.limits.define([anew]);
    model.define(anew);
  }

  async #take({ name, group, weight, ttlMs }: Extract<Act, { act: "take" }>): Promise<void> {
    const model = this.#model;
    const limit = model.limits.get(name);
    if (limit === undefined) return;
    const counted = limit.groupOf(group);
    const charge = limit.chargeOf(weight);
    const wait = limit.wait(counted, charge, model.now);
    const dry = await this.#storage.limits.take({ name, group, weight, ttlMs, dry: true });
    const answer = await this.#storage.limits.take({ name, group, weight, ttlMs });
    expect(dry).toEqual(answer.granted ? { granted: true, token: "", held: false } : answer);
    if (answer.granted) expect(wait).toBe(0);
    if (!answer.granted) {
      expect(answer.most).toBe(limit.most(counted, charge));
      const behind = limit.declared.weight !== null && weight !== 0 && model.isAwaited(limit, counted);
      if (!behind) expect([answer.most, answer.retryInMs]).toEqual([answer.most, wait < 0 ? null : finite(wait)]);
      if (!behind) expect(wait).not.toBe(0);
      expect(answer.retryInMs ?? Number.POSITIVE_INFINITY).toBeGreaterThanOrEqual(Math.max(0, wait));
      return;
    }
    if (weight === 0) return;
    const use = limit.take(counted, charge, model.now, model.now + ttlMs);
    expect(answer.held).toBe(use.hold !== undefined);
    const windowMs = use.start === undefined ? 0 : limit.quotaOf(counted).windowMs!;
    const forMs = answer.held ? ttlMs : Math.max(ttlMs, windowMs, 600_000);
    this.#permits.push({ token: answer.token, use, expiresAt: model.now + forMs, windowMs, ended: undefined });
  }

  #holds({ use, ended }: Permit): boolean {
    const known = this.#model.limits.get(use.limit.name) === use.limit;
    return ended === undefined && known && use.hold !== undefined && use.hold.until! > this.#model.now;
  }

  async #give({ permit: pick, given }: Extract<Act, { act: "give" }>): Promise<void> {
    const permit = this.#permits[pick % this.#permits.length];
    if (permit === undefined) return;
    const { use, token } = permit;
    const { now } = this.#model;
    const lives = use.hold === undefined ? now < permit.expiresAt && permit.ended === undefined : this.#holds(permit);
    // What becomes of a permit that holds nothing, once its time is over, is not said.
    if (use.hold === undefined && !lives && permit.ended === undefined) return;
    await this.#storage.limits.give(token, given);
    if (typeof given === "object") {
      // What was charged when the start had left the window is in the window as a start is.
      const counts = permit.ended === "released" && now < (use.start?.at ?? use.at) + permit.windowMs;
      if (lives || counts) settleUse(use, given.used, now);
      return;
    }
    if (!lives) return;
    permit.ended = given;
    release(use);
    if (given === "cancelled") unstart(use);
  }

  /** Everything ends, and time passes: nothing is left that anybody holds, and everything that can start does. */
  async #end(): Promise<void> {
    for (const one of this.#model.paused) {
      const [queue, type = null] = one.split("/");
      await this.#storage.setPaused(queue!, type, false);
    }
    this.#model.paused.clear();
    for (const name of this.#model.limits.keys()) {
      await this.#change(name, { paused: false });
      await this.#change(name, { restore: true });
    }
    const leases = this.#leases.filter((lease) => this.#model.held(lease) !== undefined);
    const outcomes = leases.map(({ id, token }): Outcome => ({ id, token, to: "completed", result: null }));
    expect(await this.#storage.settle(outcomes)).toEqual(this.#model.settle(outcomes));
    await checkCounts(this.#both);
    // What one sweep finds to be over, the next may forget.
    for (let again = 0; again < 2; again++) {
      await this.#advance(LONG_MS);
      while ((await this.#storage.sweep()).more);
    }
    await checkCounts(this.#both);
    for (const { rule, groups, states } of await this.#storage.limits.read({ name: null, group: null })) {
      const left = states.filter(({ used, held, nextInMs }) => used > 0 || held > 0 || nextInMs !== 0);
      expect([rule.name, left]).toEqual([rule.name, []]);
      // Those without a group are one: it may stay.
      const kept = groups - states.filter(({ group }) => group === null).length;
      if (rule.byGroup && rule.breaker === null) expect([rule.name, kept]).toEqual([rule.name, 0]);
    }
    for (let i = 0; i < 2_000; i++) {
      const queue = QUEUES[i % QUEUES.length]!;
      const { jobs, nextInMs } = await this.#storage.claim({
        queue,
        worker: "last",
        max: 50,
        types: null,
        leaseMs: 1_000,
        limits: [],
        settle: [],
      });
      await this.#storage.settle(jobs.map(({ id, token }) => ({ id, token, to: "completed", result: null })));
      if (jobs.length === 0) await this.#clock.advance(Math.min(nextInMs ?? LONGEST_MS, LONGEST_MS));
      const left = (await this.#storage.overview()).reduce(
        (sum, { counts }) => sum + counts.waiting + counts.scheduled,
        0,
      );
      if (left === 0) return;
    }
    throw new Error("jobs wait though nothing is in their way");
  }
}
