import fc from "fast-check";
import { expect, test } from "vitest";
import type { JobStorage } from "../../../src/storage/job-storage.ts";
import type { LimitChange, LimitGiven, LimitStorage, LimitTake } from "../../../src/storage/limit-storage.ts";
import type { AtomicRateLimiterStorage } from "../../../src/storage/rate-limiter-storage.ts";
import { SqliteStorage } from "../../../src/storages/sqlite/index.ts";
import { emptyStorages, rule } from "./support.ts";

/*
 * The arithmetic of limits is written twice: in TypeScript, used by SQLite, and in SQL. Whatever is done to limits from
 * outside of jobs, both answer the same, to the last bit.
 */

/** `SLUICE_LIVES=50 SLUICE_SEED=7 vitest run …` plays fifty times as many, from another beginning. */
const LIVES = 60 * Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

const RULES = [
  rule("window", { max: 4, windowMs: 1_000 }),
  rule("slots", { concurrency: 3 }),
  rule("tenant", { max: 3, windowMs: 700, concurrency: 2 }, { byGroup: true, groups: { g: { max: 5 } } }),
  rule("tokens", { max: 20, windowMs: 1_000, everyMs: 30 }, { weight: "n", estimate: 4 }),
  rule("memory", { concurrency: 10 }, { weight: "n", estimate: 2, byGroup: true }),
  rule("probed", { everyMs: 100 }, { breaker: { failures: 2, openMs: 500, probes: 1, kinds: null } }),
];

const name = fc.constantFrom(...RULES.map((one) => one.name));
const group = fc.constantFrom(null, "g", "h");
const place = fc.nat({ max: 7 });
const span = fc.constantFrom(1, 100, 250.5, 700, 1_000, 3_000);
const amount = fc.constantFrom(0, 1, 2, 5, 12, 30);

const given: fc.Arbitrary<LimitGiven> = fc.oneof(
  fc.constantFrom("released" as const, "cancelled" as const),
  fc.record({ used: amount }),
);

const change: fc.Arbitrary<LimitChange> = fc.oneof(
  fc.record({ quota: fc.constantFrom({ max: 2 }, { max: 8, windowMs: 1_500 }, { concurrency: 1 }), group }),
  fc.record({ restore: fc.constant(true as const) }),
  fc.record({ paused: fc.boolean() }),
  fc.record({ holdMs: span, group }),
  fc.record({ remaining: amount, resetMs: span, group }),
  fc.record({ reset: fc.constant(true as const), group }),
);

/** A change gives a limit a window only together with its length, and none where slots are weighed. */
function isPossible([of, how]: readonly [string, LimitChange]): boolean {
  const { quota, weight } = RULES.find((one) => one.name === of)!;
  if (!("quota" in how) || how.quota.max === undefined || quota.max !== null) return true;
  return how.quota.windowMs !== undefined && weight === null;
}

const MISSING = "missing";

/** One storage, and the tokens that it returned, the latest first. */
class Player {
  readonly limits: LimitStorage;
  readonly rates: AtomicRateLimiterStorage;
  readonly #permits: string[] = [];
  readonly #starts: string[] = [];

  constructor({ limits, rates }: JobStorage) {
    this.limits = limits;
    this.rates = rates;
  }

  permit(at: number): string {
    return this.#permits.at(at) ?? MISSING;
  }

  start(at: number): string {
    return this.#starts.at(at) ?? MISSING;
  }

  async take(asked: LimitTake): Promise<unknown> {
    const taken = await this.limits.take(asked);
    if (!taken.granted) return taken;
    if (taken.token !== "") this.#permits.unshift(taken.token);
    return [taken.held, taken.token === ""];
  }

  async try(windowMs: number, weight: number): Promise<unknown> {
    const verdict = await this.rates.tryRecordExecution("window", { maxExecutions: 4, windowMs, weight });
    if (verdict.token !== undefined) this.#starts.unshift(verdict.token);
    return [verdict.granted, verdict.retryInMs];
  }

  async renew(places: readonly number[], ttlMs: number): Promise<unknown> {
    const tokens = places.map((at) => this.permit(at));
    const lost = await this.limits.renew(tokens, ttlMs);
    return lost.map((token) => tokens.indexOf(token));
  }
}

/** What is done to both storages; `ms`: then so much time passes. */
interface Deed {
  readonly words: string;
  readonly ms: number;
  readonly play: (player: Player) => Promise<unknown>;
}

function deed<S>(words: string, said: fc.Arbitrary<S>, play: (player: Player, said: S) => Promise<unknown>) {
  const arbitrary = fc.tuple(said, fc.oneof(fc.constant(0), span));
  return arbitrary.map(([one, ms]): Deed => {
    return { words: `${words} ${JSON.stringify(one)}, ${ms} ms`, ms, play: (player) => play(player, one) };
  });
}

const asked = fc.record({ name, group, weight: fc.option(amount), ttlMs: span });
const declared = fc.record({ max: fc.constantFrom(3, 6), byGroup: fc.boolean() });

const deeds = fc.oneof(
  { weight: 6, arbitrary: deed("take", asked, (player, said) => player.take(said)) },
  { weight: 4, arbitrary: deed("give", fc.tuple(place, given), (p, [at, how]) => p.limits.give(p.permit(at), how)) },
  deed("renew", fc.tuple(fc.uniqueArray(place), span), (player, [places, ttl]) => player.renew(places, ttl)),
  {
    weight: 2,
    arbitrary: deed("change", fc.tuple(name, change).filter(isPossible), (p, [of, how]) => p.limits.change(of, how)),
  },
  deed("define", declared, ({ limits }, { max, byGroup }) =>
    limits.define([rule("window", { max, windowMs: 1_000 }, { byGroup })]),
  ),
  { weight: 2, arbitrary: deed("try", fc.tuple(span, fc.nat({ max: 2 })), (p, [ms, weight]) => p.try(ms, weight)) },
  deed("record", fc.constant(null), ({ rates }) => rates.recordExecution("window")),
  deed("cancel", place, (player, at) => player.rates.cancelExecution("window", player.start(at))),
  deed("settle", fc.tuple(place, amount), (p, [at, used]) => p.rates.settleExecution("window", p.start(at), used)),
  deed("clear", fc.constant(null), ({ rates }) => rates.clear("window")),
);

const open = emptyStorages();
const see = ({ limits }: Player) => limits.read({ name: null, group: null });

test(
  "limits of Postgres answer as those of SQLite do, whatever is done to them",
  { timeout: 2_000 * LIVES },
  async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(deeds, { maxLength: 40 }), async (done) => {
        const { storage, clock } = await open();
        await using other = new SqliteStorage(":memory:", { clock });
        const [one, two] = [new Player(storage), new Player(other)];
        for (const { limits } of [one, two]) await limits.define(RULES);
        for (const { words, ms, play } of done) {
          expect(await play(one), words).toEqual(await play(two));
          await clock.advance(ms);
          expect(await see(one), `after ${words}`).toEqual(await see(two));
        }
      }),
      { numRuns: LIVES, seed: SEED },
    );
  },
);
