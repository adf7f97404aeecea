-- Keys of limits: how much of each is available, what a start is charged, and how long a refused start waits. The locks of the limits are held.

-- The keys that a claim may charge, with how much of each is available: those of rules for all jobs, then, group by group, those of rules
-- by group. Each state is read once, after its lock was taken. `at`: not before any start that is known.
--
-- Whatever is in the way of a start comes down to four comparisons: the key is not closed, and its weight, its slots and one more start
-- are available. How long a refused start has to wait, refusal_wait answers.
--
-- rules: those for all (`all_count`), then those by group. grps, lane_keys: groups and keys, as lanes say it. want: so many start at
-- most. ttl: how soon they are called; NULL: at once. claimant: who takes of them (limits/starved.ts). now: the time.
CREATE OR REPLACE FUNCTION {schema}.open_keys(
  rules {schema}.limit_rule[], all_count integer, grps text[], lane_keys text[], want integer, ttl float8, claimant text, now float8
) RETURNS {schema}.claim_keys
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  keys {schema}.claim_keys;
BEGIN
  IF cardinality(rules) = 0 THEN
    keys.at := now;
    RETURN keys;
  END IF;
  LOOP
    SELECT now, max(k.latest), bool_or(k.longest < k.window_ms), array_agg(k.rule), array_agg(k.name), array_agg(k.grp),
        array_agg(k.id), array_agg(k.place), array_agg(k.max), array_agg(k.window_ms), array_agg(k.concurrency), array_agg(k.every_ms),
        array_agg(k.takes_slots), array_agg(k.pins), array_agg(k.alike), array_agg(k.closed),
        array_agg(coalesce(least(k.max - k.used, k.remaining), 'Infinity')),
        array_agg(coalesce(k.concurrency - k.slots, 'Infinity')), array_agg(coalesce(k.starts, 'Infinity')),
        array_agg(k.used), array_agg(k.used_at), array_agg(k.entry), array_agg(k.logged), array_agg(k.awaited),
        array_agg(k.starved), array_agg(k.others)
      INTO keys
      FROM (
        SELECT a.*, l.id, l.longest, greatest(l.newest, l.latest_at) AS latest, u.used, u.used_at,
          a.paused OR coalesce(greatest(a.held_until, l.held_until) > now, false)
            OR (a.window_ms IS NOT NULL AND (a.max = 0
              OR coalesce(greatest(a.blind_until - now, a.window_ms - (now - l.forgotten_at)) > 0, false)))
            OR (a.probes IS NOT NULL AND coalesce(now < l.open_until, false)) AS closed,
          CASE WHEN now < l.remaining_until THEN coalesce(l.remaining, 0) END AS remaining,
          CASE WHEN a.takes_slots THEN coalesce(l.held, 0) + coalesce((
            SELECT sum(h.slots) FROM {schema}.slots h WHERE h.limit_id = l.id AND h.until > now), 0) END AS slots,
          least(CASE WHEN a.every_ms IS NOT NULL THEN CASE WHEN a.every_ms - (now - l.called_at) > 0 THEN 0 ELSE 1 END END,
            CASE WHEN a.probes IS NOT NULL AND l.open_until IS NOT NULL THEN a.probes - (
              SELECT count(*) FROM {schema}.slots h
              WHERE h.limit_id = l.id AND h.at >= l.open_until AND (h.until IS NULL OR h.until > now)) END)::float8 AS starts,
          CASE WHEN ttl IS NULL AND (now = l.entry_since OR (a.max > 1000 AND (now - l.entry_since) * 1000 < a.window_ms))
            THEN l.entry END AS entry,
          a.window_ms IS NOT NULL OR l.window_ms IS NOT NULL OR coalesce(l.longest > 0, false) AS logged,
          coalesce(l.awaited, false) AS awaited, coalesce(l.starved_by IN (claimant, 'several'), claimant IS NULL) AS starved,
          CASE WHEN l.starved_by <> claimant THEN greatest(1, now - l.starved_since) END AS others
        FROM {schema}.quotas_of(rules, all_count, grps, lane_keys) AS a
          -- One by one: planned while there were few limits, a join would read all of them.
          LEFT JOIN LATERAL (SELECT o.* FROM {schema}.limits o WHERE o.name = a.name AND o.grp = a.grp LIMIT 1) l ON true
          CROSS JOIN LATERAL (
            SELECT CASE WHEN a.window_ms IS NULL THEN NULL WHEN l.id IS NULL THEN 0 WHEN s.suffices THEN l.used
                ELSE {schema}.window_used(l.id, l.window_ms, l.used, l.seen_at, a.window_ms, now) END AS used,
              CASE WHEN s.suffices THEN l.seen_at ELSE now END AS used_at
            -- What has left the window since is not looked up where all would fit beside it.
            FROM (SELECT a.weight IS NULL AND l.window_ms = a.window_ms AND l.used + want <= a.max
              AND l.seen_at <= now AND now - l.seen_at <= a.window_ms AS suffices OFFSET 0) s OFFSET 0
          ) u
        ORDER BY a.place
      ) k;
    EXIT WHEN keys.latest IS NULL OR keys.latest <= now;
    now := keys.latest;
  END LOOP;
  IF cardinality(grps) > 1 AND ('' <> ANY (lane_keys) OR EXISTS (SELECT FROM unnest(rules) AS r WHERE r.by_keys IS NOT NULL)) THEN
    -- Lanes with different groups and keys may fall under one state.
    keys.states := ARRAY(SELECT min(k.place) OVER (PARTITION BY k.name, k.grp)
      FROM unnest(keys.names, keys.grps) WITH ORDINALITY AS k (name, grp, place) ORDER BY k.place);
  ELSE
    FOR i IN 2 .. all_count LOOP
      keys.states[i] := array_position(keys.names, keys.names[i]);
    END LOOP;
  END IF;
  IF keys.unprepared THEN
    UPDATE {schema}.limits l SET longest = k.window_ms
      FROM unnest(keys.ids, keys.windows) AS k (id, window_ms) WHERE l.id = k.id AND l.longest < k.window_ms;
  END IF;
  RETURN keys;
END
$$;

-- What rules say about each of their keys, in the order of open_keys: the quota, and whether starts hold slots of it (`takes_slots`), or a row
-- without slots (`pins`), by which a group is remembered until the weight of its start may no longer be corrected.
CREATE OR REPLACE FUNCTION {schema}.quotas_of(rules {schema}.limit_rule[], all_count integer, grps text[], lane_keys text[])
RETURNS TABLE (
  place integer, rule integer, name text, grp text, max float8, window_ms float8, concurrency float8, every_ms float8, weight text,
  probes integer, paused boolean, held_until float8, blind_until float8, takes_slots boolean, pins boolean, alike boolean
)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT k.place::integer, k.rule::integer, r.name, k.grp, (k.quota).max, CASE WHEN (k.quota).max IS NOT NULL THEN (k.quota).window_ms END,
    (k.quota).concurrency, (k.quota).every_ms, r.weight, r.probes, r.paused, r.held_until, r.blind_until,
    r.probes IS NOT NULL OR (k.quota).concurrency IS NOT NULL,
    r.by_group AND r.weight IS NOT NULL AND r.max IS NOT NULL AND r.probes IS NULL AND (k.quota).concurrency IS NULL,
    (k.quota).concurrency IS NOT NULL AND num_nonnulls(r.probes, r.weight) = 0 AND k.rule <= all_count
  FROM (
    SELECT r.ordinality AS place, r.ordinality AS rule, '' AS grp,
        (r.max, r.window_ms, r.concurrency, r.every_ms)::{schema}.limit_quota AS quota
      FROM unnest(rules) WITH ORDINALITY AS r WHERE r.ordinality <= all_count
    UNION ALL
    SELECT (g.place - 1) * (cardinality(rules) - all_count) + r.ordinality, r.ordinality, v.grp,
      CASE WHEN r.groups ? substr(v.grp, 2) THEN {schema}.quota_of(rules[r.ordinality], substr(v.grp, 2))
        ELSE (r.max, r.window_ms, r.concurrency, r.every_ms)::{schema}.limit_quota END
      FROM unnest(grps, lane_keys) WITH ORDINALITY AS g (grp, keys, place) CROSS JOIN unnest(rules) WITH ORDINALITY AS r
        CROSS JOIN LATERAL (SELECT CASE WHEN r.by_keys IS NOT NULL THEN {schema}.keyed_grp(r.by_keys, g.grp, g.keys)
          WHEN g.grp = '' THEN '-' ELSE g.grp END AS grp OFFSET 0) v
      WHERE r.ordinality > all_count
  ) k CROSS JOIN LATERAL (SELECT u.* FROM unnest(rules[k.rule : k.rule]) AS u) r
$$;

-- Writes down what the starts of a claim took of its keys. Answers the ids of their states, where in the log the starts are (0: nowhere),
-- and when they are to be confirmed (NULL: never).
--
-- keys: as opened. weights, slots, starts: what was taken of each state, all together, and by how many starts. number, ttl, began: of
-- the grant that is to be confirmed (tables/1.sql); ttl is NULL where none is. now: when they start. permit: it is the start of a permit
-- with that number, in a row of its own.
CREATE OR REPLACE FUNCTION {schema}.charge_keys(
  keys {schema}.claim_keys, weights float8[], starts integer[], slots float8[], number bigint, ttl float8, began float8, now float8,
  permit boolean DEFAULT false, OUT ids bigint[], OUT entries bigint[], OUT confirm_in float8
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  fresh integer[];
  fresh_ids bigint[];
  places integer[];
  seqs bigint[];
BEGIN
  ids := keys.ids;
  entries := array_fill(0::bigint, ARRAY[cardinality(ids)]);
  -- Rules of one name share a state: its total is kept for the window of the first of them.
  FOR k IN 1 .. cardinality(ids) LOOP
    IF keys.states[k] <> k THEN
      IF keys.windows[keys.states[k]] IS NULL THEN
        keys.windows[keys.states[k]] := keys.windows[k];
        keys.used[keys.states[k]] := keys.used[k];
        keys.used_at[keys.states[k]] := keys.used_at[k];
        keys.logged[keys.states[k]] := keys.logged[keys.states[k]] OR keys.logged[k];
      END IF;
      keys.everys[keys.states[k]] := least(keys.everys[keys.states[k]], keys.everys[k]);
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM unnest(ids, starts) AS k (id, starts) WHERE k.id IS NULL AND k.starts > 0) THEN
    WITH missing AS (
      SELECT k.place::integer, k.name, k.grp, coalesce(k.window_ms, 0) AS longest
      FROM unnest(ids, keys.names, keys.grps, keys.windows, starts) WITH ORDINALITY AS k (id, name, grp, window_ms, starts, place)
      WHERE k.id IS NULL AND k.starts > 0
    ), opened AS (
      INSERT INTO {schema}.limits (name, grp, longest, prune_at)
      SELECT m.name, m.grp, m.longest, now + m.longest FROM missing m RETURNING id, name, grp
    ) SELECT array_agg(m.place), array_agg(o.id) INTO fresh, fresh_ids FROM opened o JOIN missing m ON m.name = o.name AND m.grp = o.grp;
    FOR i IN 1 .. cardinality(fresh) LOOP
      ids[fresh[i]] := fresh_ids[i];
    END LOOP;
  END IF;
  WITH entered AS (
    INSERT INTO {schema}.starts AS s (seq, limit_id, at, since, n, claim, began, token) OVERRIDING SYSTEM VALUE
    -- A row that is there already is for starts of the same instant, or of a thousandth of a window for very many.
    SELECT coalesce(CASE WHEN NOT permit AND (now = keys.at OR k.max > 1000) THEN k.entry END, nextval('{schema}.starts_seq_seq')), k.id,
      now + coalesce(ttl, 0), now, CASE WHEN k.logged THEN k.n ELSE 0 END,
      CASE WHEN ttl IS NOT NULL THEN number END, CASE WHEN ttl IS NOT NULL THEN charge_keys.began END,
      CASE WHEN permit AND k.logged THEN number END
    FROM unnest(ids, weights, starts, keys.entries, keys.logged, keys.everys, keys.maxima)
      AS k (id, n, starts, entry, logged, every_ms, max)
    WHERE k.starts > 0 AND (k.logged OR (ttl IS NOT NULL AND k.every_ms IS NOT NULL))
    ON CONFLICT ON CONSTRAINT starts_pkey DO UPDATE SET at = excluded.at, n = s.n + excluded.n
    RETURNING s.seq, s.limit_id
  ) SELECT array_agg(array_position(ids, e.limit_id)), array_agg(e.seq) INTO places, seqs FROM entered e;
  FOR i IN 1 .. coalesce(cardinality(places), 0) LOOP
    IF keys.logged[places[i]] THEN
      entries[places[i]] := seqs[i];
    END IF;
  END LOOP;
  UPDATE {schema}.limits l SET latest_at = now, called_at = greatest(l.called_at, now + coalesce(ttl, 0)),
    called_by = CASE WHEN ttl IS NOT NULL AND k.every_ms IS NOT NULL AND (l.called_at > now) IS NOT TRUE THEN number END,
    remaining = CASE WHEN l.remaining IS NOT NULL THEN greatest(0, l.remaining - k.n) END,
    window_ms = coalesce(k.window_ms, l.window_ms),
    used = CASE WHEN k.window_ms IS NOT NULL THEN k.used WHEN l.window_ms IS NOT NULL THEN l.used ELSE -k.n END + k.n,
    seen_at = CASE WHEN k.window_ms IS NOT NULL THEN k.used_at WHEN l.window_ms IS NOT NULL THEN l.seen_at ELSE now END,
    longest = greatest(l.longest, k.window_ms), newest = CASE WHEN k.place > 0 THEN now ELSE l.newest END,
    entry = CASE WHEN ttl IS NULL AND NOT permit AND k.place > 0 THEN k.place ELSE l.entry END,
    entry_since = CASE WHEN ttl IS NULL AND NOT permit AND k.place > 0 AND k.place IS DISTINCT FROM l.entry THEN now ELSE l.entry_since END,
    held = l.held + k.slots
  FROM unnest(ids, weights, slots, starts, keys.windows, keys.everys, keys.used, keys.used_at, entries)
    AS k (id, n, slots, starts, window_ms, every_ms, used, used_at, place)
  WHERE l.id = k.id AND k.starts > 0;
  IF ttl IS NOT NULL THEN
    SELECT {schema}.confirm_in(min(least(k.window_ms, k.every_ms))) INTO confirm_in
      FROM unnest(keys.windows, keys.everys, keys.states) AS k (window_ms, every_ms, state)
      WHERE starts[k.state] > 0 AND (entries[k.state] > 0 OR k.every_ms IS NOT NULL)
      HAVING count(*) > 0;
  END IF;
END
$$;

-- How long a start has to wait for one limit: decideStart in limits/key-state.ts, to the last bit. 'Infinity': until something is given
-- back. -1: for ever.
--
-- rule, grp: which limit, and which state of it. weight, slots: what the start takes. taken, taken_slots, starts: what the step
-- has taken of it so far, in how many starts, and does not stand in the tables yet. ttl: how soon these are called; NULL: at once.
CREATE OR REPLACE FUNCTION {schema}.refusal_wait(
  rule {schema}.limit_rule, grp text, weight float8, slots float8, taken float8, taken_slots float8, starts integer, ttl float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  quota {schema}.limit_quota := {schema}.quota_of(rule, {schema}.group_of(grp));
  kept {schema}.limits;
  held record;
  delay float8;
  spacing float8;
  wait float8;
BEGIN
  IF (quota.max > 0 AND weight > quota.max) OR (quota.concurrency > 0 AND slots > quota.concurrency) THEN
    RETURN -1;
  END IF;
  IF rule.paused THEN
    RETURN 'Infinity';
  END IF;
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.name = rule.name AND l.grp = refusal_wait.grp;
  wait := greatest(0, kept.held_until - now, rule.held_until - now);
  IF quota.max = 0 AND quota.window_ms IS NOT NULL THEN
    RETURN 'Infinity';
  ELSIF quota.max IS NOT NULL AND quota.window_ms IS NOT NULL THEN
    wait := greatest(wait, rule.blind_until - now, {schema}.window_wait(kept.id, kept.forgotten_at, quota.max, quota.window_ms, weight,
      {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, quota.window_ms, now) + taken, taken, ttl, now));
  END IF;
  IF quota.every_ms IS NOT NULL THEN
    delay := {schema}.expected_delay(kept.called_in, quota.every_ms);
    spacing := quota.every_ms - (now - kept.called_at);
    IF starts > 0 THEN
      spacing := quota.every_ms + CASE WHEN ttl IS NULL THEN 0 ELSE least(ttl, coalesce(delay, 0)) END;
    ELSIF spacing > 0 AND kept.called_by IS NOT NULL THEN
      -- When the latest start was called is not confirmed yet.
      spacing := {schema}.look_again_in(now - (kept.latest_at + delay), quota.every_ms, spacing);
    END IF;
    wait := greatest(wait, spacing);
  END IF;
  IF now < kept.remaining_until AND weight > greatest(0, kept.remaining - taken) THEN
    wait := greatest(wait, kept.remaining_until - now);
  END IF;
  IF rule.probes IS NOT NULL OR quota.concurrency IS NOT NULL THEN
    held := {schema}.slots_in_use(kept.id, kept.held, kept.open_until, now);
    IF held.slots + taken_slots + slots > quota.concurrency THEN
      wait := greatest(wait, CASE WHEN quota.concurrency = 0 THEN 'Infinity' ELSE held.expires_in END);
    END IF;
    IF rule.probes IS NOT NULL AND now < kept.open_until THEN
      wait := greatest(wait, kept.open_until - now);
    ELSIF rule.probes IS NOT NULL AND kept.open_until IS NOT NULL AND held.probes + starts >= rule.probes THEN
      wait := greatest(wait, held.expires_in);
    END IF;
  END IF;
  RETURN wait;
END
$$;

-- When does `weight` more fit under `max` in any `window_ms`, beside what is used? -1: never. id: NULL where nothing is kept.
-- forgotten_at: the newest start that was not kept; until it has left the window, that counts as full. taken: so much of what is
-- used is not written down yet, and is called within `ttl` (NULL: now).
CREATE OR REPLACE FUNCTION {schema}.window_wait(
  id bigint, forgotten_at float8, max float8, window_ms float8, weight float8, used float8, taken float8, ttl float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  excess float8 := used + weight - max;
  blind float8;
  start record;
BEGIN
  IF weight > max THEN
    RETURN -1;
  END IF;
  IF id IS NULL THEN
    RETURN CASE WHEN excess <= 0 THEN 0 ELSE window_ms END;
  END IF;
  blind := greatest(0, window_ms - (now - forgotten_at));
  IF excess <= 0 THEN
    RETURN blind;
  END IF;
  FOR start IN
    SELECT f.wait, f.n FROM (
      SELECT s.wait, s.n, s.seq FROM {schema}.leaving_starts(window_wait.id, window_ms, excess, now) AS s
      UNION ALL
      SELECT window_ms + CASE WHEN ttl IS NULL THEN 0 ELSE least(ttl, coalesce({schema}.latest_delay(window_wait.id, window_ms), 0)) END,
        taken, 9223372036854775807 WHERE taken > 0
    ) AS f ORDER BY f.wait, f.seq
  LOOP
    excess := excess - start.n;
    IF excess <= 0 THEN
      RETURN greatest(blind, start.wait);
    END IF;
  END LOOP;
  RETURN greatest(blind, window_ms);
END
$$;

-- Starts that leave a window first, and what they count for, as many as decide about `excess`. Every row counts for one at least: no
-- more of them need be looked at.
--
-- A start that is not confirmed is taken to leave the window when it is worth looking again (look_again_in): its call is
-- expected as long after its request as the latest call that was confirmed (what was given back was never called). Once
-- its last moment has passed it counts from there.
CREATE OR REPLACE FUNCTION {schema}.leaving_starts(id bigint, window_ms float8, excess float8, now float8)
RETURNS TABLE (wait float8, n float8, seq bigint)
LANGUAGE sql STABLE AS $$
  SELECT e.wait, e.n, e.seq FROM (
    SELECT f.wait, f.n, f.seq, sum(f.n) OVER (ORDER BY f.wait, f.seq) - f.n AS before FROM (
      (SELECT window_ms - (now - s.at) AS wait, s.n, s.seq FROM {schema}.starts AS s
        WHERE s.limit_id = leaving_starts.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms AND s.n > 0
          AND (s.claim IS NULL OR s.at <= now)
        ORDER BY s.at, s.seq LIMIT ceil(excess))
      UNION ALL
      SELECT {schema}.look_again_in(now - (s.began + coalesce((SELECT {schema}.latest_delay(leaving_starts.id, window_ms)), 0)), window_ms,
          window_ms - (now - s.at)), s.n, s.seq
        FROM {schema}.starts AS s WHERE s.limit_id = leaving_starts.id AND s.at > now AND s.n > 0 AND s.claim IS NOT NULL
    ) f
  ) e WHERE e.before < excess
$$;

-- The same as a list of [wait, n]. A statement that seldom needs it does not prepare for it: this is not made part of it.
CREATE OR REPLACE FUNCTION {schema}.leaving_list(id bigint, window_ms float8, excess float8, now float8) RETURNS json
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN (SELECT json_agg(json_build_array(s.wait, s.n) ORDER BY s.wait, s.seq)
    FROM {schema}.leaving_starts(leaving_list.id, window_ms, excess, now) AS s);
END
$$;

-- By how much later than it was asked for the next call of a limit is expected, by the latest one that was confirmed. NULL where
-- nothing is known.
CREATE OR REPLACE FUNCTION {schema}.latest_delay(id bigint, window_ms float8) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT {schema}.expected_delay(s.at - s.began, window_ms) FROM {schema}.starts AS s
  WHERE s.limit_id = latest_delay.id AND s.claim IS NULL AND s.n > 0 ORDER BY s.at DESC, s.seq DESC LIMIT 1
$$;

-- By how much later than it was asked for a call is expected, if the one before took so long: expectedDelay in
-- limits/look-again.ts. NULL where nothing is known.
CREATE OR REPLACE FUNCTION {schema}.expected_delay(called_in float8, window_ms float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN called_in IS NOT NULL THEN greatest(0, least(called_in, window_ms / 4)) END
$$;

-- When to look again at a window that a start is in the way of which is not confirmed yet: lookAgainIn in limits/look-again.ts.
--
-- age: how long ago the call was expected. certain_in: when it has left for certain.
CREATE OR REPLACE FUNCTION {schema}.look_again_in(age float8, window_ms float8, certain_in float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  at float8 := window_ms;
  step float8 := window_ms / 4;
BEGIN
  IF age < window_ms THEN
    RETURN least(certain_in, window_ms - age);
  END IF;
  WHILE at <= age LOOP
    at := at + step;
    step := step * 2;
  END LOOP;
  RETURN least(certain_in, greatest(at - age, window_ms / 4));
END
$$;

-- What is held of a limit: all slots together, how many starts since the breaker went half-open are under way, and when the
-- next of what is held runs out by itself ('Infinity': it does not). job_slots: what jobs hold of it.
-- open_until: since when starts are probes; NULL: none is.
CREATE OR REPLACE FUNCTION {schema}.slots_in_use(
  id bigint, job_slots float8, open_until float8, now float8, OUT slots float8, OUT probes float8, OUT expires_in float8
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  slots := job_slots;
  probes := 0;
  expires_in := 'Infinity';
  IF id IS NULL THEN
    slots := 0;
    RETURN;
  END IF;
  SELECT job_slots + coalesce(sum(h.slots), 0), coalesce(min(h.until) - now, 'Infinity') INTO slots, expires_in
    FROM {schema}.slots AS h WHERE h.limit_id = slots_in_use.id AND h.until > now;
  IF open_until IS NOT NULL THEN
    SELECT count(*) INTO probes FROM {schema}.slots AS h
      WHERE h.limit_id = slots_in_use.id AND h.at >= open_until AND (h.until IS NULL OR h.until > now);
  END IF;
END
$$;

-- What holds for a group of a rule, or for another value that it is counted by (NULL: for jobs without one): what is different for it,
-- and else what holds for all.
CREATE OR REPLACE FUNCTION {schema}.quota_of(rule {schema}.limit_rule, grp text) RETURNS {schema}.limit_quota
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  quota {schema}.limit_quota := (rule.max, rule.window_ms, rule.concurrency, rule.every_ms);
  own jsonb;
BEGIN
  IF rule.groups IS NULL OR NOT rule.by_group OR grp IS NULL THEN
    RETURN quota;
  END IF;
  own := rule.groups -> grp;
  IF own IS NULL THEN
    RETURN quota;
  END IF;
  -- What is said to be nothing is nothing.
  IF own ? 'max' THEN
    quota.max := (own ->> 'max')::float8;
  END IF;
  IF own ? 'windowMs' THEN
    quota.window_ms := (own ->> 'windowMs')::float8;
  END IF;
  IF own ? 'concurrency' THEN
    quota.concurrency := (own ->> 'concurrency')::float8;
  END IF;
  IF own ? 'everyMs' THEN
    quota.every_ms := (own ->> 'everyMs')::float8;
  END IF;
  RETURN quota;
END
$$;

-- What the start of a job with these weights takes. Where a rule has a window that is what is weighed, and concurrency
-- counts starts; else concurrency is. A job that says nothing counts for the estimate.
CREATE OR REPLACE FUNCTION {schema}.charge_of(rule {schema}.limit_rule, weights jsonb) RETURNS {schema}.limit_charge
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  said float8;
BEGIN
  IF rule.weight IS NULL THEN
    RETURN (1, 1)::{schema}.limit_charge;
  END IF;
  said := coalesce((weights ->> rule.weight)::float8, rule.estimate);
  IF rule.max IS NOT NULL THEN
    RETURN (said, 1)::{schema}.limit_charge;
  END IF;
  RETURN (1, said)::{schema}.limit_charge;
END
$$;

-- The state of a limit that counts a job of this group and keys: valueOf in limits/rule.ts.
CREATE OR REPLACE FUNCTION {schema}.state_of(rule {schema}.limit_rule, grp text, keys text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN rule.by_group AND rule.by_keys IS NOT NULL THEN {schema}.keyed_grp(rule.by_keys, coalesce(':' || grp, ''), keys)
    ELSE {schema}.state_grp(coalesce(rule.by_group, false), grp) END
$$;

-- The same of a limit by these keys. grp, keys: as lanes say it.
CREATE OR REPLACE FUNCTION {schema}.keyed_grp(names text[], grp text, keys text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN count(v.value) = 0 THEN '-' WHEN count(*) = 1 THEN ':' || min(v.value)
    -- Names are not empty, so a missing part never equals a present one.
    ELSE ':' || string_agg(regexp_replace(coalesce(v.value, ''), '[\\,]', '\\\&', 'g'), ',' ORDER BY v.place) END
  FROM (
    SELECT b.place, CASE WHEN b.name = 'group' THEN nullif(substr(grp, 2), '') ELSE nullif(keys, '')::jsonb ->> b.name END AS value
    FROM unnest(names) WITH ORDINALITY AS b (name, place)
  ) v
$$;

-- The group, or other value, as the state of a limit says it: '' for all; where it is by group ':' and its name, and '-' for jobs without one.
CREATE OR REPLACE FUNCTION {schema}.state_grp(by_group boolean, grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN NOT by_group THEN '' WHEN grp IS NULL THEN '-' ELSE ':' || grp END
$$;

-- The group, or other value, that a state of a limit is for; NULL: none.
CREATE OR REPLACE FUNCTION {schema}.group_of(grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN grp IN ('', '-') THEN NULL ELSE substr(grp, 2) END
$$;
