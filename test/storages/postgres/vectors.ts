import fc from "fast-check";
import type { KeyState, SlotsInUse } from "../../../src/limits/key-state.ts";
import { type Charge, chargeOf, type LimitRule, quotaOf } from "../../../src/limits/rule.ts";
import { WHEN_RELEASED } from "../../../src/limits/wait.ts";
import { createLog, recordAlone, type StartLog, viewOf, windowUsed, windowWait } from "../../../src/limits/window.ts";
import { availableOf, decideFor, type InspectedKey } from "../../../src/storage/inspected-key.ts";
import { rule } from "../../../src/testing/suite/limit-words.ts";

/** Slots in use: `until` null by a job, else by a permit. */
interface VectorHold {
  readonly slots: number;
  readonly at: number;
  readonly until: number | null;
}

/** Everything that a decision about one start depends on. */
export interface Vector {
  readonly rule: LimitRule;
  readonly group: string | null;
  readonly weights: Readonly<Record<string, number>> | null;
  readonly state: KeyState;
  readonly starts: readonly { readonly at: number; readonly n: number }[];
  readonly forgottenAt: number | null;
  readonly holds: readonly VectorHold[];
  readonly now: number;
}

/** The decision. Waits: null is "when a slot is released", as in JSON. */
export interface Decision {
  readonly quota: readonly (number | null)[];
  readonly charge: Charge;
  readonly used: number;
  readonly held: number;
  readonly wait: number | null;
  readonly reason: string | null;
  readonly free: number | null;
}

/** The decision of the pure functions. */
export function decide({ rule: said, group, weights, state, starts, forgottenAt, holds, now }: Vector): Decision {
  const quota = quotaOf(said, group);
  const charge = chargeOf(said, weights);
  const log: StartLog = createLog();
  for (const { at, n } of starts) recordAlone(log, at, n);
  if (forgottenAt !== null) log.forgottenAt = forgottenAt;
  const live = holds.filter(({ until }) => until === null || until > now);
  const held: SlotsInUse = {
    slots: live.reduce((sum, { slots }) => sum + slots, 0),
    probes: state.openUntil === null ? 0 : live.filter(({ at }) => at >= state.openUntil!).length,
    expiresIn: Math.min(WHEN_RELEASED, ...live.map(({ until }) => (until === null ? WHEN_RELEASED : until - now))),
  };
  const used = quota.max === null || quota.windowMs === null ? 0 : windowUsed(log, viewOf(log, quota.windowMs), now);
  const key: InspectedKey = {
    rule: said,
    group,
    quota,
    keyState: state,
    slots: held,
    used,
    now,
    windowWait: (max, windowMs, weight) => windowWait(log, viewOf(log, windowMs), max, now, weight),
  };
  const { wait, reason } = decideFor(key, charge);
  const holding = quota.concurrency !== null || said.breaker !== null;
  return {
    quota: [quota.max, quota.windowMs, quota.concurrency, quota.everyMs],
    charge,
    used,
    held: holding ? held.slots : 0,
    wait: finite(wait),
    reason,
    free: finite(availableOf(key)),
  };
}

const finite = (wait: number): number | null => (wait === WHEN_RELEASED ? null : wait);

/** Instants and lengths of which sums and differences are not exact. */
const NOW = 1_893_456_000_000.123;
const ms = fc.oneof(
  fc.constantFrom(0, 0.1, 1 / 3, 1, 99.999, 100, 100.000_1, 250, 1_000, 60_000),
  fc.double({ min: 0, max: 2_000, noNaN: true }).map(Math.abs),
);
const length = fc.oneof(fc.constantFrom(100, 1_000, 60_000), fc.double({ min: 0.5, max: 2_000, noNaN: true }));
/** Now and then. */
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.oneof(fc.constant(null), arbitrary);
/** Seldom: each blocks the others. */
const rarely = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 6, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });
const ago = ms.map((by) => NOW - by);
const around = fc.tuple(ms, fc.boolean()).map(([by, later]) => (later ? NOW + by : NOW - by));
const amount = fc.integer({ min: 0, max: 12 });

const quota = fc
  .record({ max: maybe(amount), windowMs: length, concurrency: maybe(amount), everyMs: rarely(length) })
  .map(({ max, windowMs, concurrency, everyMs }) => ({
    max,
    windowMs: max === null ? null : windowMs,
    concurrency,
    everyMs,
  }));

const group = fc.record(
  { max: amount, concurrency: maybe(amount), everyMs: maybe(length), share: fc.integer({ min: 1, max: 4 }) },
  { requiredKeys: [] },
);

const limitRule: fc.Arbitrary<LimitRule> = fc
  .record({
    quota,
    byGroup: fc.boolean(),
    groups: fc.dictionary(fc.constantFrom("g", "__proto__", "it's"), group, { maxKeys: 2, noNullPrototype: true }),
    weight: fc.constantFrom(null, null, "n", "__proto__"),
    estimate: fc.integer({ min: 0, max: 5 }),
    breaker: maybe(
      fc.record({
        failures: fc.constant(2),
        openMs: length,
        probes: fc.integer({ min: 1, max: 3 }),
        kinds: fc.constant(null),
      }),
    ),
    paused: fc.constantFrom(...Array.from({ length: 9 }, () => false), true),
    heldUntil: rarely(around),
    blindUntil: rarely(around),
  })
  .map(({ quota: numbers, groups, byGroup, heldUntil, blindUntil, ...about }) => {
    // A group has a window only where the rule has one.
    const own = Object.entries(groups).map(
      ([name, { max, ...rest }]) =>
        [name, numbers.max === null || max === undefined ? rest : { ...rest, max }] as const,
    );
    return rule("v", numbers, {
      ...about,
      byGroup,
      groups: byGroup ? Object.fromEntries(own) : {},
      ...(heldUntil !== null && { heldUntil }),
      ...(blindUntil !== null && { blindUntil }),
    });
  });

export const vector: fc.Arbitrary<Vector> = fc.record({
  rule: limitRule,
  group: fc.constantFrom(null, "g", "it's", "other"),
  weights: maybe(fc.constantFrom({ n: 0 }, { n: 3 }, { n: 12 }, { other: 2 })),
  state: fc
    .record({
      latestAt: maybe(ago),
      // How much later it was called, or may be; and whether that is known.
      later: ms,
      calledBy: maybe(fc.constant(10_000)),
      calledIn: fc.oneof(fc.constant(0), ms),
      heldUntil: rarely(around),
      remaining: maybe(amount),
      remainingUntil: rarely(around),
      failures: fc.constant(0),
      openUntil: maybe(around),
    })
    .map(({ later, ...state }) => {
      const { latestAt, calledBy } = state;
      const calledAt = latestAt === null ? null : latestAt + later;
      return Object.assign(state, { calledAt, calledBy: latestAt === null ? null : calledBy });
    }),
  starts: fc
    .array(fc.record({ at: ago, n: fc.integer({ min: 1, max: 5 }) }), { maxLength: 12 })
    .map((starts) => starts.toSorted((a, b) => a.at - b.at)),
  forgottenAt: rarely(ago),
  holds: fc.array(fc.record({ slots: fc.integer({ min: 1, max: 4 }), at: ago, until: maybe(around) }), {
    maxLength: 4,
  }),
  now: fc.constant(NOW),
});
