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
  SELECT coalesce(jsonb_agg(to_jsonb(w)), '[]') INTO waiting FROM {schema}.waiting_jobs(NULL, now) w;
  SELECT coalesce(jsonb_agg(jsonb_build_object('stored', r.stored) || {schema}.seen_states(r.rule, asked, now)
      ORDER BY r.name), '[]')
    INTO limits FROM {schema}.rules r WHERE wanted IS NULL OR r.name = wanted;
  RETURN jsonb_build_object('skew', {schema}.skew(), 'waiting', waiting, 'limits', limits)::text;
END
$$;
