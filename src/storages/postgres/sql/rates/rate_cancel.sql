-- Cancels the start of a token, as if it had never been: a token of another name, or before the name was cleared,
-- changes nothing.
CREATE OR REPLACE FUNCTION {schema}.rate_cancel_{version}(limit_name text, limit_id bigint, number bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS DISTINCT FROM limit_id OR NOT {schema}.is_issued(number) OR NOT {schema}.cancel_start(number) THEN
    RETURN '{}';
  END IF;
  RETURN json_build_object('everybody', {schema}.is_news({schema}.window_freed(limit_name, '', now), now));
END
$$;
