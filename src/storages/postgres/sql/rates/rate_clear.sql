-- Forgets all starts under a name; slots of a limit of that name stay in use.
CREATE OR REPLACE FUNCTION {schema}.rate_clear_{version}(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept {schema}.limits;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS NULL THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.reset_limit(kept.id, now);
  RETURN json_build_object('everybody', {schema}.is_news({schema}.window_freed(limit_name, '', now), now));
END
$$;
