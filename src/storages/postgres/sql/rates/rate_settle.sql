-- Settles the start of a token with what it really used: less is available at once, more is charged at once.
--
-- limit_id, number, reserved: its token.
CREATE OR REPLACE FUNCTION {schema}.rate_settle_{version}(
  limit_name text, limit_id bigint, number bigint, reserved float8, used float8
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS DISTINCT FROM limit_id OR NOT {schema}.is_issued(number) THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.settle_start(kept, number, reserved, used, now);
  RETURN json_build_object('everybody', {schema}.is_news({schema}.window_freed(limit_name, '', now), now));
END
$$;
