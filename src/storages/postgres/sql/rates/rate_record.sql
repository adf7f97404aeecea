-- Writes a start under a name, whether or not it fits. Under a name that no window has counted yet it is kept for an hour.
CREATE OR REPLACE FUNCTION {schema}.rate_record_{version}(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.open_limit(limit_name, 3600000, '', now);
  PERFORM {schema}.record_starts(kept.id, 1, now);
  RETURN '{}';
END
$$;
