import fc from "fast-check";
import { expect, test } from "vitest";
import { PostgresStorage } from "../../../src/storages/postgres/index.ts";
import { once, temporaryDatabase } from "./server.ts";
import { type Decision, decide, type Vector, vector } from "./vectors.ts";

/** `SLUICE_LIVES=20 SLUICE_SEED=7 vitest run …` looks at twenty times as many others. */
const VECTORS = 1_500 * Number(process.env["SLUICE_LIVES"] ?? 1);
const SEED = Number(process.env["SLUICE_SEED"] ?? 20_300_101);

/** Decides as a claim does, by the functions that it uses. */
const DECIDE = `
CREATE FUNCTION public.decide(rule jsonb, grp text, weights jsonb, now float8) RETURNS json LANGUAGE plpgsql AS $$
DECLARE
  said sluice.limit_rule := sluice.read_rule(rule);
  state_grp text := sluice.state_grp(said.by_group, grp);
  quota sluice.limit_quota := sluice.quota_of(said, grp);
  lane text := CASE WHEN said.by_group THEN coalesce(':' || grp, '') END;
  charge sluice.limit_charge := sluice.charge_of(said, weights);
  kept sluice.limits;
  -- As a claim of one sees them, and one of very many, which looks up what has left the window.
  keys sluice.claim_keys := sluice.open_keys(ARRAY[said], CASE WHEN lane IS NULL THEN 1 ELSE 0 END,
    array_remove(ARRAY[lane], NULL), '{}', 1, NULL, NULL, now);
  exact sluice.claim_keys := sluice.open_keys(ARRAY[said], CASE WHEN lane IS NULL THEN 1 ELSE 0 END,
    array_remove(ARRAY[lane], NULL), '{}', 1000000000, NULL, NULL, now);
BEGIN
  SELECT * INTO kept FROM sluice.limits l WHERE l.name = said.name AND l.grp = state_grp;
  RETURN json_build_object(
    'quota', json_build_array(quota.max, quota.window_ms, quota.concurrency, quota.every_ms),
    'charge', json_build_object('weight', charge.weight, 'slots', charge.slots),
    'used', CASE WHEN quota.max IS NULL OR quota.window_ms IS NULL THEN 0
      ELSE sluice.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, quota.window_ms, now) END,
    'held', CASE WHEN said.probes IS NULL AND quota.concurrency IS NULL THEN 0
      ELSE (sluice.slots_in_use(kept.id, kept.held, NULL, now)).slots END,
    'wait', nullif(sluice.refusal_wait(said, state_grp, charge.weight, charge.slots, 0, 0, 0, NULL, now), 'Infinity'),
    -- A claim decides no earlier than what it knows of.
    'fits', CASE WHEN keys.at = now THEN NOT keys.closed[1] AND charge.weight <= keys.weights[1] AND charge.slots <= keys.slots[1]
      AND keys.starts[1] >= 1 AND (charge.weight <= keys.maxima[1]) IS NOT FALSE AND (charge.slots <= keys.concurrency[1]) IS NOT FALSE END,
    'starts', CASE WHEN keys.at = now AND said.weight IS NULL THEN nullif(sluice.available_starts(exact), 'Infinity') END);
END
$$`;

/** What the comparisons of a claim return: does it fit; how many of weight one do? Null: it decides later. */
interface Comparisons {
  readonly fits: boolean | null;
  readonly starts: number | null;
}

/** Writes the state before each vector. The total of a window is that of a moment ago, or of another window. */
const PREPARE = `
WITH v AS (SELECT * FROM json_to_recordset($1) AS v(name text, grp text, "windowMs" float8, used float8, "seenAt" float8, state json, "forgottenAt" float8,
    newest float8, held float8, starts json, holds json)),
  l AS (INSERT INTO sluice.limits (name, grp, latest_at, called_at, called_by, called_in, held_until, remaining, remaining_until, open_until, window_ms, used, seen_at,
      longest, newest, forgotten_at, prune_at, held)
    SELECT name, grp, (state ->> 'latestAt')::float8, (state ->> 'calledAt')::float8, (state ->> 'calledBy')::bigint,
      (state ->> 'calledIn')::float8, (state ->> 'heldUntil')::float8, (state ->> 'remaining')::float8,
      (state ->> 'remainingUntil')::float8, (state ->> 'openUntil')::float8, "windowMs", used, "seenAt", 1e9, newest, "forgottenAt", 1e15, held
    FROM v RETURNING id, name),
  s AS (INSERT INTO sluice.starts (limit_id, at, since, n) SELECT l.id, s.at, s.at, s.n FROM v JOIN l USING (name),
    json_to_recordset(v.starts) AS s(at float8, n float8) ORDER BY l.id, s.at)
INSERT INTO sluice.slots (limit_id, token, slots, at, until) SELECT l.id, row_number() OVER (), h.slots, h.at, h.until
  FROM v JOIN l USING (name), json_to_recordset(v.holds) AS h(slots float8, at float8, until float8)`;

const stateGroup = ({ rule, group }: Vector): string => (!rule.byGroup ? "" : group === null ? "-" : `:${group}`);

/** Each under a name of its own. */
const renamed = (rule: Vector["rule"], i: number): Vector["rule"] => ({ ...rule, name: `v${i}` });

test(`limits decide in the database as in all other storages (${VECTORS} vectors, seed ${SEED})`, async () => {
  const vectors = fc.sample(vector, { numRuns: VECTORS, seed: SEED });
  const expected = vectors.map(decide);
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  await storage.setup();
  await storage.close();
  await once(url, DECIDE);
  const rows = vectors.map((one, i) => {
    const { state, forgottenAt, starts, holds, now } = one;
    const windowMs = expected[i]!.quota[1] ?? null;
    // Stored for this window, some time ago; for another one; or never read.
    const seenAt = now - (i % 4) * 37.3;
    const kept = i % 5 === 4 || windowMs === null ? null : windowMs;
    const inUse = starts.filter(({ at }) => kept !== null && seenAt - at < kept);
    return {
      name: `v${i}`,
      grp: stateGroup(one),
      windowMs: kept,
      used: inUse.reduce((sum, { n }) => sum + n, 0),
      seenAt,
      state,
      forgottenAt,
      newest: starts.at(-1)?.at ?? null,
      held: holds.reduce((sum, { slots, until }) => (until === null ? sum + slots : sum), 0),
      starts,
      holds,
    };
  });
  await once(url, PREPARE, [JSON.stringify(rows)]);
  const asked = JSON.stringify(
    vectors.map(({ rule, group, weights, now }, nth) => ({ rule: renamed(rule, nth), group, weights, now, nth })),
  );
  const answers = (await once(
    url,
    `SELECT public.decide(v.rule, v."group", v.weights, v.now)::text AS answer
      FROM json_to_recordset($1) AS v(rule jsonb, "group" text, weights jsonb, now float8, nth int) ORDER BY nth`,
    [asked],
  )) as { answer: string }[];
  expect(answers).toHaveLength(VECTORS);
  let compared = 0;
  for (const [i, { answer }] of answers.entries()) {
    const { fits, starts, ...decision } = JSON.parse(answer) as Omit<Decision, "reason"> & Comparisons;
    const { free, reason: _, ...pure } = expected[i]!;
    const about = JSON.stringify(vectors[i]);
    expect(decision, about).toEqual(pure);
    if (fits === null) continue;
    compared += 1;
    expect(fits, about).toBe(pure.wait === 0);
    if (vectors[i]!.rule.weight === null) expect(starts, about).toBe(free === null ? null : Math.floor(free));
  }
  expect(compared).toBeGreaterThan(VECTORS / 3);
  // All of it was asked about, and not only what fits anyway.
  for (const reason of ["window", "spacing", "concurrency", "paused", "held", "remaining", "breaker", null]) {
    expect(expected.filter((one) => one.reason === reason).length, String(reason)).toBeGreaterThan(VECTORS / 300);
  }
});
