-- Holds a name for so long from now: nothing starts under it. A hold is only ever extended.
CREATE OR REPLACE FUNCTION {schema}.rate_pause_{version}(limit_name text, pause_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  PERFORM {schema}.gauge_hold(limit_name, '', now + pause_ms, now);
  RETURN '{}';
END
$$;
