-- So much was charged for a start and has left every window: what it used beyond that counts from now on. The lock of the
-- name is held.
--
-- used: all that it used. gone: what was charged. until: so long it is kept at least.
CREATE OR REPLACE FUNCTION {schema}.charge_start(
  start {schema}.starts, used float8, gone float8, until float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  IF used <= gone THEN
    RETURN;
  END IF;
  SELECT greatest(now, newest) INTO moment FROM {schema}.limits WHERE id = start.limit_id;
  PERFORM {schema}.change_start(start, moment, greatest(moment, until), used - gone, gone);
  PERFORM {schema}.charge_more(start.limit_id, used - gone);
END
$$;
