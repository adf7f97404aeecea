import fc from "fast-check";
import type { JobKeys } from "../../src/core/job.ts";
import type { LimitRule } from "../../src/limits/rule.ts";
import type { JobUpdate } from "../../src/storage/job-storage.ts";
import type { LimitChange } from "../../src/storage/limit-storage.ts";
import { limitRule } from "./jobs.ts";

/**
 * - `general`: limits for all jobs, some of them weighed. What the storage does is what the model does.
 * - `groups`: limits for all and limits by group, nothing weighed. The same; only the instant may be earlier than need be.
 * - `keys`: as `groups`, and limits by other keys of the jobs, and by several of them.
 * - `mixed`: everything at once. What the storage does must be right, and must not leave undone what could be done.
 */
export type Kind = "general" | "groups" | "keys" | "mixed" | "mixed keys";

export const QUEUES = ["q", "r"];
export const TYPES = ["a", "b", "c"];
export const GROUPS = [null, "g", "h", "i"];
const BYS = [undefined, ["tenant"], ["model"], ["tenant", "model"], ["group", "model"]];
const isKeyed = (kind: Kind) => kind === "keys" || kind === "mixed keys";
const NAMES = ["k0", "k1", "k2", "k3"];
export const WEIGHT = "n";
export const LONGEST_MS = 1_000;

/** Once in so many times. */
const rarely = <T>(oneIn: number, arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ weight: oneIn - 1, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
const index = fc.nat({ max: 1_000 });
const ms = fc.constantFrom(1, 7, 50, 100, 333, 1_000);

const quota = fc
  .record({
    max: fc.option(fc.integer({ min: 1, max: 8 }), { freq: 3 }),
    windowMs: fc.constantFrom(50, 333, LONGEST_MS),
    concurrency: fc.option(fc.integer({ min: 1, max: 5 }), { freq: 2 }),
    everyMs: rarely(4, fc.constantFrom(5, 40)),
  })
  .map(({ max, windowMs, concurrency, everyMs }) => {
    const none = max === null && concurrency === null && everyMs === null;
    return { max, windowMs: max === null ? null : windowMs, concurrency: none ? 2 : concurrency, everyMs };
  });

const ruleOf = (kind: Kind, name: string): fc.Arbitrary<LimitRule> =>
  fc
    .record({
      quota,
      types: fc.option(fc.subarray(TYPES, { minLength: 1 }), { freq: 2 }),
      queues: rarely(4, fc.subarray(QUEUES, { minLength: 1 })),
      byGroup: kind === "general" ? fc.constant(false) : fc.boolean(),
      by: isKeyed(kind) ? fc.constantFrom(...BYS) : fc.constant(undefined),
      weighed: kind === "groups" || kind === "keys" ? fc.constant(false) : fc.boolean(),
      estimate: fc.integer({ min: 1, max: 3 }),
      breaker: rarely(
        5,
        fc.record({
          failures: fc.integer({ min: 1, max: 3 }),
          openMs: fc.constantFrom(60, 200),
          probes: fc.integer({ min: 1, max: 2 }),
          kinds: fc.constant(null),
        }),
      ),
      own: rarely(2, fc.integer({ min: 1, max: 9 })),
    })
    .map(({ quota: of, weighed, own, byGroup, by, estimate, ...rest }) => {
      // Spacing alone weighs nothing.
      const weight = weighed && (of.max !== null || of.concurrency !== null) ? WEIGHT : null;
      const number = of.max !== null ? "max" : of.concurrency !== null ? "concurrency" : "everyMs";
      const groups = byGroup && own !== null ? { g: { [number]: own } } : {};
      return limitRule(name, of, {
        ...rest,
        byGroup,
        ...(byGroup && by !== undefined && { by }),
        weight,
        groups,
        estimate: weight === null ? 1 : estimate,
      });
    });

const newJob = (kind: Kind) =>
  fc.record({
    inMs: fc.constantFrom(0, 0, 0, 0, 30, 60, 400),
    keys: isKeyed(kind) ? fc.option(keys, { freq: 6, nil: undefined }) : fc.constant(undefined),
    queue: fc.constantFrom("q", "q", "q", "r"),
    type: fc.constantFrom(...TYPES),
    priority: fc.constantFrom(0, 0, 0, 5, -3),
    group: fc.constantFrom(...GROUPS),
    weights: fc.option(
      fc.integer({ min: 1, max: 6 }).map((n) => ({ [WEIGHT]: n })),
      { freq: 2 },
    ),
    maxAttempts: fc.constantFrom(1, 3, 100),
  });

const keys: fc.Arbitrary<JobKeys> = fc
  .record({ tenant: fc.constantFrom("g", "h"), model: fc.constantFrom("x", "y") })
  .chain((both) => fc.constantFrom<JobKeys>(both, both, { tenant: both.tenant }, { model: both.model }));

const outcome = fc.record({
  lease: index,
  stale: fc.integer({ min: 0, max: 9 }),
  to: fc.constantFrom("completed", "completed", "dead", "cancelled", "retry", "back"),
  inMs: fc.constantFrom(0, 0, 30, 400),
  hold: rarely(4, fc.record({ names: fc.subarray(NAMES), scope: fc.boolean(), forMs: fc.constantFrom(20, 150) })),
  unstarted: fc.boolean(),
  held: fc.boolean(),
  settled: fc.subarray([WEIGHT]),
});

export type OutcomeAct = typeof outcome extends fc.Arbitrary<infer T> ? T : never;

const brought = rarely(
  5,
  fc.record({ max: fc.integer({ min: 1, max: 4 }), key: fc.constantFrom("queue:q", "queue:r") }),
);

const group = fc.constantFrom(...GROUPS, "x", "y", "g,x", "h,y", "g,", ",x");

const updated = (kind: Kind): fc.Arbitrary<JobUpdate["set"]> => {
  const sets: fc.Arbitrary<JobUpdate["set"]>[] = [
    fc.record({ priority: fc.constantFrom(0, 5, -3) }),
    fc.record({ group: fc.constantFrom(...GROUPS) }),
    fc.record({ due: fc.record({ inMs: fc.constantFrom(0, 30, 400) }) }),
    fc.record({
      weights: fc.option(
        fc.integer({ min: 1, max: 6 }).map((n) => ({ [WEIGHT]: n })),
        { freq: 4, nil: null },
      ),
    }),
  ];
  if (isKeyed(kind)) sets.push(fc.record({ keys: fc.option(keys, { freq: 4, nil: null }) }));
  return fc.oneof(...sets);
};

/** What people and services do. Groups are those of limits by group; for others they are left out. */
const change: fc.Arbitrary<LimitChange> = fc.oneof(
  fc.record({ quota: fc.record({ max: fc.integer({ min: 0, max: 8 }) }), group }),
  fc.record({ quota: fc.record({ concurrency: fc.integer({ min: 0, max: 5 }) }), group }),
  fc.constant({ restore: true as const }),
  fc.record({ paused: fc.boolean() }),
  fc.record({ holdMs: fc.constantFrom(20, 150), group }),
  fc.record({ remaining: fc.nat({ max: 5 }), resetMs: fc.constantFrom(50, 400), group }),
  fc.record({ reset: fc.constant(true as const), group }),
);

const act = (kind: Kind) =>
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        act: fc.constant("add" as const),
        jobs: fc.array(newJob(kind), { minLength: 1, maxLength: 6 }),
      }),
    },
    {
      weight: 9,
      arbitrary: fc.record({
        act: fc.constant("claim" as const),
        queue: fc.constantFrom("q", "q", "q", "r"),
        max: fc.constantFrom(0, 1, 2, 3, 5, 9, 50),
        types: rarely(3, fc.subarray([...TYPES, "unknown"], { minLength: 1 })),
        leaseMs: fc.constantFrom(60, 1_000, 100_000),
        brought,
        settle: fc.array(outcome, { maxLength: 3 }),
      }),
    },
    {
      weight: 5,
      arbitrary: fc.record({
        act: fc.constant("settle" as const),
        outcomes: fc.array(outcome, { minLength: 1, maxLength: 4 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ act: fc.constant("report" as const), lease: index, used: fc.nat({ max: 9 }) }),
    },
    { weight: 2, arbitrary: fc.record({ act: fc.constant("sweep" as const) }) },
    { weight: 6, arbitrary: fc.record({ act: fc.constant("advance" as const), by: ms }) },
    { weight: 1, arbitrary: fc.record({ act: fc.constant("cancel" as const), job: index }) },
    {
      weight: 2,
      arbitrary: fc.record({ act: fc.constant("change" as const), name: fc.constantFrom(...NAMES), change }),
    },
    { weight: 1, arbitrary: fc.record({ act: fc.constant("resume" as const), name: fc.constantFrom(...NAMES) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        act: fc.constant("declare" as const),
        rule: index,
        remove: fc.boolean(),
        max: fc.integer({ min: 1, max: 8 }),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        act: fc.constant("take" as const),
        name: fc.constantFrom(...NAMES),
        group,
        weight: rarely(3, fc.nat({ max: 6 })),
        ttlMs: fc.constantFrom(40, 500),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({
        act: fc.constant("give" as const),
        permit: index,
        given: fc.oneof(
          fc.constantFrom("released" as const, "cancelled" as const),
          fc.nat({ max: 9 }).map((used) => ({ used })),
        ),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        act: fc.constant("renew" as const),
        permits: fc.array(index, { maxLength: 3 }),
        ttlMs: fc.constant(500),
      }),
    },
    { weight: 2, arbitrary: fc.record({ act: fc.constant("explain" as const), job: index }) },
    { weight: 3, arbitrary: fc.record({ act: fc.constant("update" as const), job: index, set: updated(kind) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        act: fc.constant("pause" as const),
        queue: fc.constantFrom("q", "q", "r"),
        type: rarely(2, fc.constantFrom(...TYPES)),
        paused: fc.constantFrom(true, false, false),
      }),
    },
    {
      weight: 3,
      arbitrary: fc.record({
        act: fc.constant("do" as const),
        action: fc.constantFrom("retry" as const, "remove" as const, "promote" as const),
        job: index,
      }),
    },
  );

export type Act = ReturnType<typeof act> extends fc.Arbitrary<infer T> ? T : never;

export interface Life {
  readonly kind: Kind;
  readonly rules: readonly LimitRule[];
  readonly acts: readonly Act[];
  /** A worker of the first queue claims whenever it is woken up. */
  readonly worker: boolean;
}

/** Rules, and what happens to jobs under them. */
export const lifeOf = (kind: Kind): fc.Arbitrary<Life> =>
  fc.noBias(
    fc.record({
      kind: fc.constant(kind),
      rules: fc
        .integer({ min: 1, max: NAMES.length })
        .chain((many) => fc.tuple(...NAMES.slice(0, many).map((name) => ruleOf(kind, name)))),
      worker: fc.boolean(),
      acts: fc.array(act(kind), { minLength: 10, maxLength: 80, size: "max" }),
    }),
  );
