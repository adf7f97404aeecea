-- What limits look like from outside: for `limits.read`, and for the explanation of a job. No locks.

-- What there is of limits, by name, and what waits in all queues (limits/reading.ts): one look, without any lock.
--
-- wanted: one limit, or NULL. asked: of limits by group this group, or NULL.
CREATE OR REPLACE FUNCTION {schema}.read_limits_{version}(wanted text, asked text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  waiting jsonb;
  limits jsonb;
BEGIN
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting FROM {schema}.waiting_jobs(now) w;
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.seen_states(r.rule, asked, now)
      ORDER BY r.name), '[]')
    INTO limits FROM {schema}.rules r WHERE wanted IS NULL OR r.name = wanted;
  RETURN jsonb_build_object('skew', {schema}.skew(), 'waiting', waiting, 'limits', limits)::text;
END
$$;

-- What is kept of a limit, of how many groups, for people: of the group that is asked for, or of those that were used last,
-- a hundred at the most.
--
-- rule: as it is in force. asked: a group, or NULL. at: now.
CREATE OR REPLACE FUNCTION {schema}.seen_states(rule jsonb, asked text, at float8) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  limit_name text := rule ->> 'name';
  by_group boolean := (rule ->> 'byGroup')::boolean;
  known bigint;
  grps text[];
  states jsonb;
BEGIN
  SELECT count(*) INTO known FROM {schema}.limits WHERE name = limit_name AND (grp <> '') = by_group;
  IF NOT by_group THEN
    grps := ARRAY[''];
  ELSIF asked IS NOT NULL THEN
    grps := ARRAY[':' || asked];
  ELSE
    SELECT array_agg(l.grp ORDER BY l.grp <> '-', l.latest_at DESC NULLS LAST, l.id DESC) INTO grps FROM (
      SELECT id, grp, latest_at FROM {schema}.limits WHERE name = limit_name AND grp <> ''
      ORDER BY grp <> '-', latest_at DESC NULLS LAST, id DESC LIMIT 100
    ) l;
  END IF;
  SELECT coalesce(jsonb_agg({schema}.seen_limit(limit_name, g.grp, (g.quota ->> 'windowMs')::float8,
      (g.quota ->> 'max')::float8, 1, 0, at) || jsonb_build_object('grp', g.grp) ORDER BY g.place), '[]')
    INTO states FROM (
      SELECT grp, place, (rule -> 'quota') || CASE WHEN left(grp, 1) = ':' THEN coalesce(rule -> 'groups' -> substr(grp, 2), '{}')
        ELSE '{}' END AS quota
      FROM unnest(grps) WITH ORDINALITY AS u (grp, place)
    ) g;
  RETURN jsonb_build_object('groups', known, 'states', states);
END
$$;

-- What is kept of a limit, for one group or for all, as a reader sees it (limits/seen-key.ts): its row, what is in use
-- of the window and what leaves it first, and what is held.
--
-- limit_name, state_grp: whose. window_ms, most: its window, or NULL. more: what is asked for, when `ahead` others have
-- started: as many of the starts that leave the window are told as decide about that; one that is not confirmed as if it had been
-- called when it leaves at the instant at which it is worth looking again (limits/keys.sql: window_wait). at: now.
CREATE OR REPLACE FUNCTION {schema}.seen_limit(
  limit_name text, state_grp text, window_ms float8, most float8, more float8, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept {schema}.limits;
  moment float8;
  in_use float8 := 0;
  needed float8;
  leaving jsonb := '[]';
  delay float8;
  held record;
BEGIN
  SELECT * INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = state_grp;
  IF kept.id IS NULL THEN
    RETURN jsonb_build_object('now', at, 'row', NULL, 'used', 0, 'leaving', '[]'::jsonb,
      'slots', 0, 'probes', 0, 'until', NULL);
  END IF;
  -- Whatever is decided comes after all that is known.
  moment := greatest(at, kept.newest, kept.latest_at);
  IF window_ms IS NOT NULL AND most IS NOT NULL THEN
    SELECT coalesce(sum(s.n), 0) INTO in_use FROM {schema}.starts s
      WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms;
    needed := greatest(0, in_use + more - most) + ahead;
    IF needed > 0 THEN
      SELECT {schema}.expected_delay(s.at - s.began, window_ms) INTO delay FROM {schema}.starts s
        WHERE s.limit_id = kept.id AND s.claim IS NULL AND s.n > 0 ORDER BY s.at DESC, s.seq DESC LIMIT 1;
      SELECT coalesce(jsonb_agg(jsonb_build_array(f.at, f.n) ORDER BY f.at, f.seq), '[]') INTO leaving FROM (
        SELECT e.at, e.seq, e.n, sum(e.n) OVER (ORDER BY e.at, e.seq) - e.n AS before FROM (
          (SELECT s.at, s.seq, s.n FROM {schema}.starts s
            WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms AND s.n > 0
              AND s.claim IS NULL
            ORDER BY s.at, s.seq LIMIT 10000)
          UNION ALL
          SELECT moment - window_ms + {schema}.look_again_in(
              moment - (s.began + coalesce(delay, 0)), window_ms, window_ms - (moment - s.at)), s.seq, s.n
            FROM {schema}.starts s
            WHERE s.limit_id = kept.id AND s.at > moment - window_ms - 1 AND moment - s.at < window_ms AND s.n > 0
              AND s.claim IS NOT NULL
        ) e ORDER BY e.at, e.seq LIMIT 10000
      ) f WHERE f.before < needed;
    END IF;
  END IF;
  SELECT coalesce(sum(h.slots), 0) AS slots, count(*) FILTER (WHERE h.at >= kept.open_until) AS probes, min(h.until) AS until
    INTO held FROM {schema}.holds h WHERE h.limit_id = kept.id AND (h.until IS NULL OR h.until > moment);
  RETURN jsonb_build_object('now', moment, 'row', to_jsonb(kept), 'used', in_use, 'leaving', leaving,
    'slots', held.slots, 'probes', held.probes, 'until', held.until);
END
$$;

-- What is kept of a limit for a job that waits (seen_limit), and how long those are waited for who wait for the
-- limit already and come before it (`behind`; NULL: until something is given back).
--
-- own: the job. lane: its lane, as standing_of says it. first: what the first of the lane weighs. ahead: how many
-- come before it.
CREATE OR REPLACE FUNCTION {schema}.seen_standing(
  rule {schema}.limit_rule, own {schema}.jobs, lane jsonb, first jsonb, ahead float8, at float8
) RETURNS jsonb
LANGUAGE plpgsql STABLE AS $$
DECLARE
  state_grp text := {schema}.state_of(rule, own.grp, own.keys);
  quota {schema}.key_quota := {schema}.key_quota_of(rule, {schema}.group_of(state_grp));
  more float8 := greatest(({schema}.charge_of(quota, own.weights)).weight, ({schema}.charge_of(quota, first)).weight);
  seen jsonb := {schema}.seen_limit(rule.name, state_grp, quota.window_ms, quota.max, more, ahead, at);
  behind float8 := 0;
BEGIN
  IF rule.weight IS NOT NULL THEN
    behind := {schema}.heavy_wait(rule.name, state_grp, own.priority,
      coalesce((lane ->> 'id')::bigint, 0),
      CASE WHEN lane ->> 'heavy' IS NOT NULL AND lane ->> 'by' = rule.name AND lane ->> 'state' = state_grp THEN (lane ->> 'since')::float8 ELSE 'Infinity' END,
      (seen ->> 'now')::float8, true);
  END IF;
  RETURN jsonb_build_object('seen', seen, 'behind', nullif(behind, 'Infinity'));
END
$$;
