-- The service says how much is left of a limit until its window begins anew; of a limit by group: to this group, or to jobs
-- without one (NULL).
CREATE OR REPLACE FUNCTION {schema}.tell_limit_{version}(limit_name text, grp text, remaining float8, reset_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  now float8;
  state_grp text;
  news boolean := false;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  now := {schema}.moment();
  state_grp := {schema}.state_grp(rule.by_group, grp);
  IF {schema}.gauge_tell(limit_name, state_grp, remaining, reset_ms, now) THEN
    news := {schema}.is_news({schema}.window_freed(limit_name, state_grp, now), now);
  END IF;
  RETURN json_build_object('everybody', news);
END
$$;
