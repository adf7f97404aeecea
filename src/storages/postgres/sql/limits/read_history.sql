-- What was changed about limits, the newest first.
--
-- wanted: one limit, or NULL.
CREATE OR REPLACE FUNCTION {schema}.read_history_{version}(wanted text, most int) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(l.change || jsonb_build_object('at', l.at_wall) ORDER BY l.seq DESC), '[]')::text FROM (
    SELECT * FROM {schema}.limit_changes WHERE wanted IS NULL OR name = wanted ORDER BY seq DESC LIMIT most) AS l
$$;
