-- Nothing starts under a limit for so long, in one group; of a limit that is not by group, at all. It only ever extends. What
-- holds all groups of a limit is kept with its rule: write_rules.
CREATE OR REPLACE FUNCTION {schema}.hold_limit_{version}(limit_name text, grp text, hold_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  now float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  IF rule.by_group AND grp IS NULL THEN
    RETURN '{"again":true}';
  END IF;
  now := {schema}.moment();
  PERFORM {schema}.gauge_hold(limit_name, {schema}.state_grp(rule.by_group, grp), now + hold_ms, now);
  RETURN '{}';
END
$$;
