import fc from "fast-check";
import { expect, test } from "vitest";
import type { LimitRule } from "../../../src/limits/rule.ts";
import { claimantOf } from "../../../src/limits/starved.ts";
import type { Lease } from "../../../src/storage/job-storage.ts";
import type { LimitChange } from "../../../src/storage/limit-storage.ts";
import type { GrantRow } from "../../../src/storages/postgres/grants.ts";
import { recordsOf } from "../../../src/storages/postgres/jobs/claim.ts";
import type { JobRow } from "../../../src/storages/postgres/jobs/record.ts";
import type { StartedJobs } from "../../../src/storages/postgres/jobs/started.ts";
import { anything } from "../jobs.ts";
import { type EmptyStorage, emptyStorages, newJob, rule } from "./support.ts";

/*
 * A claim whose jobs all run under the same limits has a path of its own, which writes what it gives back and what it takes in one
 * statement. It answers as the general path does, and leaves the same rows behind.
 */

/** `SLUICE_LIVES=50 SLUICE_SEED=7 vitest run …` plays fifty times as many, from another beginning. */
const LIVES = 40 * Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

/** All claims take the general path. */
const GENERALLY = `CREATE OR REPLACE FUNCTION sluice.claim_uniform(q sluice.claim_request, sign sluice.claim_signs) RETURNS text
  LANGUAGE sql VOLATILE AS $$ SELECT sluice.claim_general(q, sign, coalesce(q.tokens, '{}'), false) $$`;

const RULES: readonly LimitRule[] = [
  rule("few", { concurrency: 4 }),
  rule("as few", { concurrency: 4 }, { queues: ["q"] }),
  rule("more", { concurrency: 9, max: 30, windowMs: 400 }),
  rule("window", { max: 12, windowMs: 500 }),
  rule("wide", { max: 5_000, windowMs: 3_000 }),
  rule("half", { concurrency: 3.5 }, { types: ["a", "b"] }),
  rule("of a type", { max: 8, windowMs: 300, concurrency: 5 }, { types: ["a"] }),
  rule("of another", { concurrency: 2 }, { types: ["b"] }),
  rule("elsewhere", { concurrency: 1 }, { queues: ["other"] }),
  rule("probed", { concurrency: 5 }, { breaker: { failures: 2, openMs: 100, probes: 1, kinds: null }, types: ["b"] }),
];

const change: fc.Arbitrary<LimitChange> = fc.oneof(
  fc.record({
    quota: fc.constantFrom({ concurrency: 2 }, { concurrency: 6 }, { max: 9, windowMs: 450 }),
    group: fc.constant(null),
  }),
  fc.record({ restore: fc.constant(true as const) }),
  fc.record({ paused: fc.boolean() }),
  fc.record({ holdMs: fc.constantFrom(1, 60), group: fc.constant(null) }),
  fc.record({ remaining: fc.constantFrom(0, 3, 50), resetMs: fc.constantFrom(20, 200), group: fc.constant(null) }),
  fc.record({ reset: fc.constant(true as const), group: fc.constant(null) }),
);

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("add" as const),
      type: fc.constantFrom("a", "a", "a", "b"),
      many: fc.constantFrom(1, 3, 20),
      inMs: fc.constantFrom(0, 0, 0, 80),
      keepFor: fc.constantFrom(0, null),
    }),
  },
  {
    weight: 16,
    arbitrary: fc.record({
      do: fc.constant("claim" as const),
      max: fc.constantFrom(0, 1, 1, 2, 3, 4, 7),
      types: fc.constantFrom(null, null, null, ["a"], ["a"], ["b"], ["a", "b"]),
      // Which of those that run have ended: the first again and again is all of them.
      ended: fc.oneof(
        fc.constantFrom(0, 1, 2, 9).map((many) => Array<number>(many).fill(0)),
        fc.array(fc.nat(9), { maxLength: 5 }),
      ),
      // Are its calls to be confirmed? Which of those that are, by then or later than that, does it confirm?
      ttl: fc.constantFrom(null, null, 40, 400),
      confirmed: fc.array(fc.record({ place: fc.nat(3), called: fc.constantFrom(0, 0.5, 30, 60, 500) }), {
        maxLength: 2,
      }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("settle" as const), failed: fc.boolean() }) },
  {
    weight: 4,
    arbitrary: fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(0.25, 1, 2.5, 60, 90, 300) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("take" as const), name: fc.nat(20), ttlMs: fc.constantFrom(40, 5_000) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("change" as const), name: fc.nat(20), change }) },
);
const life = fc.record({
  rules: fc.subarray([...RULES], { minLength: 1, maxLength: 4 }),
  steps: fc.array(step, { minLength: 20, maxLength: 60 }),
});

/** What is left behind, without generated numbers. What a window has in use is read as of now. */
const LEFT = `SELECT l.name, l.grp, l.awaited, l.starved_by, l.starved_since, l.latest_at, l.held_until, l.remaining, l.remaining_until, l.failures, l.open_until, l.held, l.longest,
    l.newest, l.window_ms, CASE WHEN l.window_ms IS NOT NULL THEN sluice.window_used(l.id, l.window_ms, l.used, l.seen_at, l.window_ms, sluice.present()) END AS used,
    (SELECT coalesce(sum(s.n), 0) FROM sluice.starts s WHERE s.limit_id = l.id AND greatest(l.seen_at, sluice.present()) - s.at < l.window_ms) AS counted,
    (SELECT sum(s.n) FROM sluice.starts s WHERE s.limit_id = l.id) AS starts, l.called_at, l.called_by, l.called_in,
    (SELECT json_agg(json_build_array(s.at, s.began, s.since, s.n, s.claim IS NULL) ORDER BY s.at, s.seq)
      FROM sluice.starts s WHERE s.limit_id = l.id AND s.began IS NOT NULL) AS granted,
    (SELECT json_agg(json_build_array(h.slots, h.n, h.at, h.until) ORDER BY h.slots, h.n, h.at, h.until)
      FROM sluice.slots h WHERE h.limit_id = l.id) AS slots
  FROM sluice.limits l ORDER BY l.name, l.grp`;

interface Claiming {
  readonly max: number;
  readonly types: readonly string[] | null;
  readonly ended: readonly number[];
  readonly ttl: number | null;
  readonly confirmed: readonly { readonly place: number; readonly called: number }[];
}

/** One of the two paths in its life: what it has claimed and not settled or confirmed. */
class Player {
  readonly #scene: EmptyStorage;
  readonly #leases: Lease[] = [];
  readonly #grants: number[] = [];

  constructor(scene: EmptyStorage) {
    this.#scene = scene;
  }

  get storage(): EmptyStorage["storage"] {
    return this.#scene.storage;
  }

  async wait(ms: number): Promise<void> {
    await this.#scene.clock.advance(ms);
  }

  /** All that the function answers, but for tokens and numbers. */
  async claim({ max, types, ended, ttl, confirmed }: Claiming): Promise<unknown> {
    const leases = this.#end(ended).toSorted((a, b) => a.token - b.token);
    const settled = { ids: leases.map(({ id }) => id), tokens: leases.map(({ token }) => token) };
    const grants = confirmed.flatMap(({ place, called }) =>
      this.#grants.splice(place, 1).map((grant) => ({ grant, called })),
    );
    const { rows } = await this.#scene.pool.query<{ answer: string }>("SELECT sluice.claim_2($1) AS answer", [
      JSON.stringify({
        claim: 1,
        queue: "q",
        worker: "w",
        max,
        prefetch: 2,
        types,
        lease_ms: 600_000,
        claimant: claimantOf({ queue: "q", types, max }),
        limits: [],
        ...(leases.length > 0 && settled),
        ...(ttl !== null && { grant_ttl: ttl }),
        ...(grants.length > 0 && {
          grants: grants.map(({ grant }) => grant),
          called: grants.map(({ called }) => called),
        }),
      }),
    ]);
    const { jobs, grant, snapshot, ...answer } = JSON.parse(rows[0]!.answer) as {
      readonly jobs: StartedJobs | readonly JobRow[];
      readonly wakeAll?: boolean;
      readonly ends?: boolean;
      readonly grant?: GrantRow | null;
      readonly snapshot?: { readonly due: readonly (readonly [type: string, at: number])[] };
    };
    const started = recordsOf(jobs, anything());
    this.#leases.push(...started.map(({ id, token }) => ({ id, token })));
    if (grant) this.#grants.unshift(grant[0]);
    return {
      ...answer,
      // Of jobs that come due at the same instant the snapshot has any.
      snapshot: snapshot && { ...snapshot, due: snapshot.due.map(([, at]) => at) },
      confirmIn: grant?.[1],
      jobs: started.map(({ id }) => id),
      wakeAll: answer.wakeAll ?? false,
      ends: answer.ends ?? false,
      woken: undefined,
      events: undefined,
    };
  }

  async settle(failed: boolean): Promise<unknown> {
    const error = { name: "Error", message: "" };
    return this.storage.settle(
      this.#end([0, 1]).map(({ id, token }) =>
        failed ? { id, token, to: "retry", inMs: 0, error } : { id, token, to: "completed", result: null },
      ),
    );
  }

  async left(): Promise<unknown> {
    const { rows } = await this.#scene.pool.query<{ name: string; used: number | null; counted: number }>(LEFT);
    // A total is what it would be if it were added up anew.
    for (const { name, used, counted } of rows) if (used !== null) expect([name, used]).toEqual([name, counted]);
    return rows;
  }

  #end(places: readonly number[]): Lease[] {
    return places.flatMap((place) => this.#leases.splice(place % Math.max(1, this.#leases.length), 1));
  }
}

const openFast = emptyStorages();
const openCareful = emptyStorages();

test(
  `the uniform path and the general path answer the same (${LIVES} lives, seed ${SEED})`,
  { timeout: 60_000 + LIVES * 1_000 },
  async () => {
    await fc.assert(
      fc.asyncProperty(life, async ({ rules, steps }) => {
        const careful = await openCareful();
        await careful.pool.query(GENERALLY);
        const players = [new Player(careful), new Player(await openFast())];
        const both = async (act: (player: Player) => Promise<unknown>): Promise<void> => {
          const [expected, actual] = [await act(players[0]!), await act(players[1]!)];
          expect(actual).toEqual(expected);
        };
        await both((player) => player.storage.limits.define(rules));
        let made = 0;
        for (const one of steps) {
          if (one.do === "add") {
            const { type, many, inMs, keepFor } = one;
            const jobs = Array.from({ length: many }, () =>
              newJob({ id: `j${made++}`, type, due: { inMs }, keepFor, maxAttempts: 99 }),
            );
            await both((player) => player.storage.add(jobs));
          } else if (one.do === "claim") {
            await both((player) => player.claim(one));
            await both((player) => player.left());
          } else if (one.do === "settle") {
            await both((player) => player.settle(one.failed));
          } else if (one.do === "wait") {
            await Promise.all(players.map((player) => player.wait(one.ms)));
          } else if (one.do === "take") {
            const { name } = rules[one.name % rules.length]!;
            await both(
              async (player) =>
                (await player.storage.limits.take({ name, group: null, weight: null, ttlMs: one.ttlMs })).granted,
            );
          } else {
            await both((player) => player.storage.limits.change(rules[one.name % rules.length]!.name, one.change));
          }
        }
      }),
      { numRuns: LIVES, seed: SEED, interruptAfterTimeLimit: 50_000 + LIVES * 500, markInterruptAsFailure: true },
    );
  },
);
