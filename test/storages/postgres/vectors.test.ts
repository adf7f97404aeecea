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
  meter sluice.limit_meter := sluice.meter_of(sluice.read_rule(rule), grp);
  account sluice.limit_account := sluice.open_account(meter.name, sluice.state_grp(meter.by_group, grp));
  charge sluice.limit_charge := sluice.charge_of(meter, weights);
  verdict sluice.limit_verdict;
BEGIN
  account := sluice.watch(account, meter, now, false);
  meter.used := sluice.meter_used(account, meter, now);
  verdict := sluice.verdict(meter, account, charge.weight, charge.slots, now);
  RETURN json_build_object(
    'quota', json_build_array(meter.max, meter.window_ms, meter.concurrency, meter.every_ms),
    'share', meter.share,
    'charge', json_build_object('weight', charge.weight, 'slots', charge.slots),
    'used', meter.used,
    'held', coalesce(account.held, 0),
    'wait', nullif(verdict.wait, 'Infinity'),
    'reason', verdict.reason,
    'quick', nullif(sluice.limit_wait(meter, account, charge.weight, charge.slots, now), 'Infinity'),
    'free', nullif(sluice.free_of(meter, account, now), 'Infinity'));
END
$$`;

/** Writes down what each vector says was there before. The total of a window is that of a moment ago, or of another window. */
const PREPARE = `
WITH v AS (SELECT * FROM json_to_recordset($1) AS v(name text, grp text, "windowMs" float8, used float8, "seenAt" float8, gauge json, "forgottenAt" float8,
    newest float8, held float8, starts json, holds json)),
  l AS (INSERT INTO sluice.limits (name, grp, latest_at, called_at, called_by, called_in, pause_until, told_left, told_until, open_until, window_ms, used, seen_at,
      longest, newest, forgotten_at, prune_at, held)
    SELECT name, grp, (gauge ->> 'latestAt')::float8, (gauge ->> 'calledAt')::float8, (gauge ->> 'calledBy')::bigint,
      (gauge ->> 'calledIn')::float8, (gauge ->> 'heldUntil')::float8, (gauge ->> 'remaining')::float8,
      (gauge ->> 'remainingUntil')::float8, (gauge ->> 'openUntil')::float8, "windowMs", used, "seenAt", 1e9, newest, "forgottenAt", 1e15, held
    FROM v RETURNING id, name),
  s AS (INSERT INTO sluice.starts (limit_id, at, since, n) SELECT l.id, s.at, s.at, s.n FROM v JOIN l USING (name),
    json_to_recordset(v.starts) AS s(at float8, n float8) ORDER BY l.id, s.at)
INSERT INTO sluice.holds (limit_id, token, slots, at, until) SELECT l.id, row_number() OVER (), h.slots, h.at, h.until
  FROM v JOIN l USING (name), json_to_recordset(v.holds) AS h(slots float8, at float8, until float8)`;

const stateGroup = ({ rule, group }: Vector): string => (!rule.byGroup ? "" : group === null ? "-" : `:${group}`);

/** Each under a name of its own. */
const renamed = (rule: Vector["rule"], i: number): Vector["rule"] => ({ ...rule, name: `v${i}` });

test(`limits decide in the database as they do everywhere else (${VECTORS} vectors, seed ${SEED})`, async () => {
  const vectors = fc.sample(vector, { numRuns: VECTORS, seed: SEED });
  const expected = vectors.map(decide);
  const url = await temporaryDatabase();
  const storage = new PostgresStorage(url);
  await storage.setup();
  await storage.close();
  await once(url, DECIDE);
  const rows = vectors.map((one, i) => {
    const { gauge, forgottenAt, starts, holds, now } = one;
    const windowMs = expected[i]!.quota[1] ?? null;
    // Kept for this window, as it was some time ago; for another one; or never looked at.
    const seenAt = now - (i % 4) * 37.3;
    const kept = i % 5 === 4 || windowMs === null ? null : windowMs;
    const inUse = starts.filter(({ at }) => kept !== null && seenAt - at < kept);
    return {
      name: `v${i}`,
      grp: stateGroup(one),
      windowMs: kept,
      used: inUse.reduce((sum, { n }) => sum + n, 0),
      seenAt,
      gauge,
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
  for (const [i, { answer }] of answers.entries()) {
    expect(JSON.parse(answer) as Decision, JSON.stringify(vectors[i])).toEqual(expected[i]);
  }
  // All of it was asked about, and not only what fits anyway.
  for (const reason of ["window", "spacing", "concurrency", "paused", "held", "told", "breaker", null]) {
    expect(expected.filter((one) => one.reason === reason).length, String(reason)).toBeGreaterThan(VECTORS / 300);
  }
});
