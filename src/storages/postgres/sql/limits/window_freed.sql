-- There is more room in a window of a limit, or no pause any more: lanes that waited for it may look again, and it is news for
-- everybody. grp: as the state of the limit says it.
CREATE OR REPLACE FUNCTION {schema}.window_freed(name text, grp text, now float8) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule := {schema}.rule_named(name);
BEGIN
  IF rule.by_group THEN
    PERFORM {schema}.unblock_lanes(name, ARRAY[{schema}.lane_grp(grp)], now);
  ELSIF rule.weight IS NOT NULL THEN
    PERFORM {schema}.unblock_lanes(name, NULL, now);
  END IF;
  RETURN ARRAY[(NULL, name, grp, 0, 0, false)]::{schema}.limit_given[];
END
$$;
