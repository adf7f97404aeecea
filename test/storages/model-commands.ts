import fc from "fast-check";
import { expect } from "vitest";
import type {
  Change,
  ChangeAction,
  ClaimLimit,
  ClaimRequest,
  Idempotency,
  JobStorage,
  Lease,
  NewJob,
  Outcome,
  When,
} from "../../src/storage/job-storage.ts";
import type { FakeClock } from "../../src/testing/index.ts";
import { type Model, type ModelJob, view } from "./model-state.ts";

export interface Real {
  readonly storage: JobStorage;
  readonly clock: FakeClock;
}

type Command = fc.AsyncCommand<Model, Real>;

/** A step of the storage and the same step of the model; then everything is compared. */
function command(
  name: string,
  run: (model: Model, real: Real) => Promise<void>,
  can?: (model: Model) => boolean,
): Command {
  return {
    check: (model) => can?.(model) ?? true,
    run: async (model, real) => {
      await run(model, real);
      await agree(model, real);
    },
    toString: () => name,
  };
}

async function agree(model: Model, { storage }: Real): Promise<void> {
  const { jobs, now } = { jobs: model.kept.jobs, now: model.now };
  const found = await storage.find(jobs.map(({ id }) => id));
  expect(found.map((job) => job && view(job, now))).toEqual(jobs.map((job) => view(job, now)));
  const failed = jobs.filter((job) => job.failures > 0 || job.id === model.leases.at(-1)?.id);
  const histories = await Promise.all(failed.map(({ id }) => storage.history(id)));
  expect(histories.map(({ attempts }) => attempts.length)).toEqual(failed.map((job) => job.failures));
  for (const queue of QUEUES) {
    const page = await storage.list({ ...EVERYTHING, queue });
    const expected = jobs.filter((job) => job.queue === queue).toReversed();
    expect(page.jobs.map(({ id }) => id)).toEqual(expected.map(({ id }) => id));
    const [overview] = await storage.overview(queue);
    const { waiting = 0, scheduled = 0, active = 0, completed = 0, dead = 0, cancelled = 0 } = overview?.counts ?? {};
    const count = (state: ModelJob["state"]) => expected.filter((job) => job.state === state).length;
    expect({ queued: waiting + scheduled, active, completed, dead, cancelled }).toEqual({
      queued: count("queued"),
      active: count("active"),
      completed: count("completed"),
      dead: count("dead"),
      cancelled: count("cancelled"),
    });
    expect(overview?.paused ?? false).toBe(model.paused.has(queue));
  }
}

const EVERYTHING = { states: null, type: null, group: null, since: null, until: null, limit: 1_000, cursor: null };
const QUEUES = ["q", "r"];
const TYPES = ["a", "b", "c"];

/** Every name is always counted in the same window: the model does not cover windows that change. */
const LIMITS: Readonly<Record<string, number>> = { one: 100, two: 700, three: 1_000 };

const queue = fc.constantFrom(...QUEUES);
const types = fc.option(fc.subarray([...TYPES, "unknown"]), { freq: 2 });
const limits: fc.Arbitrary<ClaimLimit[]> = fc
  .subarray(Object.keys(LIMITS), { maxLength: 2 })
  .chain((keys) =>
    fc.tuple(...keys.map((key) => fc.integer({ min: 1, max: 4 }).map((max) => ({ key, max, windowMs: LIMITS[key]! })))),
  );
/** Once in so many times. */
const rarely = <T>(oneIn: number, arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: oneIn - 1, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
const index = fc.nat({ max: 1_000 });
const ms = fc.constantFrom(0, 1, 10, 99, 100, 101, 500, 1_000);
const when: fc.Arbitrary<When> = fc.oneof(
  { weight: 3, arbitrary: fc.constant({ inMs: 0 }) },
  ms.map((inMs) => ({ inMs })),
);

const idempotency: fc.Arbitrary<Idempotency> = fc.record({
  key: fc.constantFrom("k1", "k2"),
  fingerprint: fc.constantFrom("f1", "f2"),
  ttlMs: fc.constantFrom(50, 1_000, 100_000),
  onDuplicate: fc.constantFrom("return", "replace", "reject"),
});

const newJob = fc.record({
  queue: fc.oneof({ weight: 4, arbitrary: fc.constant("q") }, queue),
  type: fc.constantFrom(...TYPES),
  due: when,
  priority: fc.constantFrom(0, 0, 0, 5, -5),
  group: fc.constantFrom(null, null, "g", "h"),
  maxAttempts: fc.integer({ min: 1, max: 3 }),
  deadline: rarely(
    5,
    ms.map((inMs) => ({ inMs })),
  ),
  keepFor: fc.constantFrom(null, 0, 100, 5_000),
  idempotency: rarely(3, idempotency),
  again: rarely(12, index),
});

/** Jobs in one step: some with a key that is taken, some with an id that was there before. */
const add = fc.array(newJob, { minLength: 1, maxLength: 4 }).map((said) =>
  command(`add ${fc.stringify(said)}`, async (model, { storage }) => {
    const jobs = said.map(({ again, ...job }): NewJob => {
      const id = again !== null && model.added > 0 ? `j${again % model.added}` : `j${model.added++}`;
      const rest = { weights: null, backoff: { kind: "fixed", delay: 1 }, timeout: null } as const;
      return { id, data: "{}", ...rest, ...job };
    });
    const answer = await storage.add(jobs).catch((error: unknown) => (error as { code: string }).code);
    expect(answer).toEqual(model.add(jobs));
  }),
);

/** Any lease there ever was; if possible, one that is valid. */
function leaseOf(model: Model, pick: number, holds: boolean): Lease | undefined {
  const holding = model.leases.filter((lease) => model.held(lease) !== undefined);
  const from = holds && holding.length > 0 ? holding : model.leases;
  return from[pick % from.length];
}

/** An outcome of any kind for any lease there ever was, most often for one that is valid. */
const outcome = fc
  .record({
    lease: index,
    fresh: fc.integer({ min: 0, max: 3 }),
    to: fc.constantFrom("completed", "dead", "cancelled", "retry", "back"),
    inMs: ms,
    held: fc.boolean(),
    error: fc.constantFrom(null, { name: "Error", message: "it broke" }),
    hold: rarely(
      3,
      fc.record({
        names: fc.subarray(Object.keys(LIMITS), { minLength: 1 }),
        scope: fc.boolean(),
        forMs: fc.constantFrom(1, 100, 300),
      }),
    ),
    unstarted: fc.boolean(),
  })
  .map((said) => (model: Model): Outcome[] => {
    const lease = leaseOf(model, said.lease, said.fresh > 0);
    if (lease === undefined) return [];
    const error = said.error ?? { name: "Error", message: "" };
    const { to, inMs, held, hold, unstarted } = said;
    switch (to) {
      case "completed":
        return [{ ...lease, to, result: "1" }];
      case "dead":
        return [{ ...lease, to, error }];
      case "cancelled":
        return [{ ...lease, to, error: said.error }];
      case "retry":
        return [{ ...lease, to, inMs, error }];
      case "back":
        return [{ ...lease, to, inMs, held, error: said.error, hold, unstarted }];
      default:
        throw new Error(`no such outcome: ${String(to)}`);
    }
  });

const outcomes = fc.array(outcome, { maxLength: 3 });
const read = (all: readonly ((model: Model) => Outcome[])[], model: Model) => all.flatMap((one) => one(model));

const settle = outcomes.map((all) =>
  command(`settle ${all.length}`, async (model, { storage }) => {
    const settled = read(all, model);
    expect(await storage.settle(settled)).toEqual(model.settle(settled));
  }),
);

const claim = fc
  .record({
    queue: fc.oneof({ weight: 4, arbitrary: fc.constant("q") }, queue),
    max: fc.constantFrom(0, 1, 2, 3, 5, 9),
    types,
    leaseMs: fc.constantFrom(1, 100, 1_000),
    limits,
    settle: outcomes,
  })
  .map(({ settle: all, ...said }) =>
    command(`claim ${fc.stringify(said)}`, async (model, { storage }) => {
      const request: ClaimRequest = { ...said, worker: "w", settle: read(all, model) };
      const answer = await storage.claim(request);
      expect(answer.stale).toEqual(model.settle(request.settle));
      model.endLate();
      const most = Math.min(request.max, model.available(request.limits));
      for (const { id, token } of answer.jobs) {
        const next = model.next(request);
        const job = next.find((other) => other.id === id);
        expect(next.map((other) => other.id)).toContain(id);
        expect(token).toBeGreaterThan(model.token);
        model.token = token;
        model.start(job!, request, token);
      }
      expect(answer.jobs.length).toBeLessThanOrEqual(most);
      if (model.claimable(request, true).length > 0) expect(answer.jobs.length).toBe(most);
      expect(wakeUpOf(answer)).toEqual(wakeUp(model, request));
    }),
  );

const wakeUpOf = ({
  more,
  nextInMs,
  blockedBy,
}: {
  more: boolean;
  nextInMs: number | null;
  blockedBy: string | null;
}) => ({
  more,
  nextInMs,
  blockedBy,
});

/** What a claim says about later, after its jobs have started. */
function wakeUp(model: Model, request: ClaimRequest) {
  const waits = model.claimable(request, true).length > 0;
  const later = model.claimable(request, false).map((job) => job.dueAt - model.now);
  if (!waits && later.length === 0) return { more: false, nextInMs: null, blockedBy: null };
  const waiting = request.limits.map((limit) => ({ key: limit.key, wait: model.wait(limit) }));
  const longest = Math.max(0, ...waiting.map(({ wait }) => wait));
  return {
    more: waits && longest === 0,
    nextInMs: waits ? longest : Math.max(longest, Math.min(...later)),
    blockedBy: waits && longest > 0 ? waiting.find(({ wait }) => wait === longest)!.key : null,
  };
}

const heartbeat = fc.tuple(fc.array(index, { maxLength: 3 }), fc.constantFrom(1, 50, 1_000)).map(([picks, leaseMs]) =>
  command(
    `heartbeat ${picks.join()} for ${leaseMs}`,
    async (model, { storage }) => {
      const leases = picks.map((pick) => leaseOf(model, pick, pick % 4 > 0)!);
      const lost: string[] = [];
      const cancelled: string[] = [];
      const answer = await storage.heartbeat(leases, leaseMs);
      for (const lease of leases) {
        const job = model.held(lease);
        if (job === undefined || job.leaseUntil! <= model.now) {
          lost.push(lease.id);
          continue;
        }
        job.leaseUntil = model.now + leaseMs;
        if (job.cancelRequested) cancelled.push(job.id);
      }
      expect(answer).toEqual({ lost, cancelled });
    },
    (model) => model.leases.length > 0,
  ),
);

const sweep = fc.constant(
  command("sweep", async (model, { storage }) => {
    const { stalled, more } = await storage.sweep();
    expect({ stalled, more }).toEqual({ stalled: model.sweep(), more: false });
  }),
);

const advance = fc.constantFrom(1, 49, 99, 100, 101, 500, 999, 1_000, 10_000).map((by) =>
  command(`advance ${by}`, async (model, { clock }) => {
    await clock.advance(by);
    model.advance(by);
  }),
);

const pause = fc
  .tuple(queue, fc.constantFrom(null, ...TYPES), fc.constantFrom(true, false, false))
  .map(([of, type, paused]) =>
    command(`${paused ? "pause" : "resume"} ${of} ${type}`, async (model, { storage }) => {
      await storage.setPaused(of, type, paused);
      const name = type === null ? of : `${of}/${type}`;
      if (paused) model.paused.add(name);
      else model.paused.delete(name);
    }),
  );

const resumeAll = fc.constant(
  command("resume all", async (model, { storage }) => {
    for (const name of model.paused) {
      const [of = "", type] = name.split("/");
      await storage.setPaused(of, type ?? null, false);
    }
    model.paused.clear();
  }),
);

const action = fc.constantFrom<ChangeAction>("cancel", "retry", "promote", "remove");

/** One of those that were added last, or one that is active. */
function someJob(model: Model, pick: number): string {
  const lease = pick % 2 === 0 ? leaseOf(model, pick, true) : undefined;
  return lease?.id ?? `j${model.added - 1 - (pick % Math.min(model.added, 8))}`;
}

const changeIds = fc.tuple(action, queue, fc.array(index, { minLength: 1, maxLength: 3 })).map(([what, of, picks]) =>
  command(
    `${what} ${picks.join()} of ${of}`,
    async (model, { storage }) => {
      const ids = [...new Set(picks.map((pick) => someJob(model, pick)))];
      const changed = await storage.change({ action: what, queue: of, ids });
      const expected = ids.filter((id) => {
        const job = model.job(id);
        return job?.queue === of && model.change(what, job);
      });
      expect(changed).toEqual(expected);
    },
    (model) => model.added > 0,
  ),
);

const update = fc
  .tuple(
    queue,
    index,
    fc.record(
      {
        priority: fc.constantFrom(0, 5, -5),
        group: fc.constantFrom(null, "g", "h"),
        due: when,
        deadline: fc.option(ms.map((inMs) => ({ inMs }))),
        maxAttempts: fc.integer({ min: 1, max: 3 }),
        keepFor: fc.constantFrom(null, 0, 100),
      },
      { requiredKeys: [] },
    ),
  )
  .map(([of, pick, set]) =>
    command(
      `update ${pick} of ${of} ${fc.stringify(set)}`,
      async (model, { storage }) => {
        const id = someJob(model, pick);
        const { updated, state } = await storage.update({ queue: of, id, set });
        const job = model.job(id);
        expect(updated).toBe(job?.queue === of && model.update(job, set));
        if (job?.queue !== of) expect(state).toBe(null);
        else if (job.state === "queued") expect(state).toBe(job.dueAt > model.now ? "scheduled" : "waiting");
        else expect(state).toBe(job.state);
      },
      (model) => model.added > 0,
    ),
  );

const changeWhere = fc
  .record({
    action,
    queue,
    limit: fc.integer({ min: 1, max: 3 }),
    type: fc.constantFrom(null, ...TYPES),
    group: fc.constantFrom(null, "g"),
    states: fc.subarray(["active", "completed", "dead", "cancelled"] as const),
    queued: fc.boolean(),
    endedForMs: fc.constantFrom(null, 50),
  })
  .map(({ queued, ...said }) =>
    command(`${said.action} where ${fc.stringify(said)}`, async (model, { storage }) => {
      const { type, group, endedForMs } = said;
      const states = queued ? (["waiting", "scheduled", ...said.states] as const) : said.states;
      const where = { states, type, group, endedForMs };
      const wanted: Change = { action: said.action, queue: said.queue, where, limit: said.limit };
      const changed = await storage.change(wanted);
      const expected: string[] = [];
      for (const job of model.kept.jobs) {
        const fits =
          job.queue === said.queue &&
          (job.state === "queued" ? queued : said.states.includes(job.state)) &&
          (type === null || job.type === type) &&
          (group === null || job.group === group) &&
          (endedForMs === null || (job.finishedAt !== null && model.now - job.finishedAt >= endedForMs));
        if (expected.length < said.limit && fits && model.change(said.action, job)) expected.push(job.id);
      }
      expect(changed).toEqual(expected);
    }),
  );

/** Code outside of the queue starts something under one of the limits, or resets the limit. */
const outside = fc
  .record({ key: fc.constantFrom("one", "two"), max: fc.integer({ min: 1, max: 4 }), clear: fc.nat({ max: 9 }) })
  .map(({ key, max, clear }) =>
    command(`outside ${key} ${max} ${clear}`, async (model, { storage }) => {
      if (clear === 0) {
        await storage.rates.clear(key);
        model.starts = model.starts.filter((start) => start.key !== key);
        model.pauses.delete(key);
        return;
      }
      const windowMs = LIMITS[key]!;
      const { granted, retryInMs } = await storage.rates.tryRecordExecution(key, { maxExecutions: max, windowMs });
      const wait = model.wait({ key, max, windowMs });
      expect({ granted, retryInMs }).toEqual({ granted: wait === 0, retryInMs: wait });
      if (granted) model.count(key);
    }),
  );

/** Everything that can be done to a storage, at random. */
export const commands = (maxCommands: number) =>
  fc.commands<Model, Real, false>(
    [
      add,
      add,
      claim,
      claim,
      claim,
      settle,
      heartbeat,
      sweep,
      advance,
      advance,
      pause,
      resumeAll,
      changeIds,
      changeWhere,
      update,
      outside,
    ],
    { maxCommands, size: "max" },
  );
