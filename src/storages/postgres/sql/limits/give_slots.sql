-- Jobs have given back so many slots of a limit: starts with these tokens (NULL: the breaker need not hear of it), that held
-- them since these instants. leases: how it went; NULL: well. Answers with what is_news has to hear.
CREATE OR REPLACE FUNCTION {schema}.give_slots(
  id bigint, slots float8, tokens bigint[], ats float8[], leases {schema}.ended_lease[], now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  one {schema}.limit_given;
  seen record;
BEGIN
  UPDATE {schema}.limits AS l SET held = greatest(0, l.held - slots) WHERE l.id = give_slots.id
    RETURNING l AS kept, (SELECT r.fields FROM {schema}.rules AS r WHERE r.name = l.name) AS rule,
      (SELECT sum(h.slots) FROM {schema}.holds AS h WHERE h.limit_id = l.id AND h.until > give_slots.now) AS permits
    INTO seen;
  IF NOT FOUND OR seen.rule IS NULL THEN
    RETURN given;
  END IF;
  -- Where there was room before, more of it is news for nobody but those who need more than one, or wait in a lane.
  IF (seen.rule).probes IS NULL AND (seen.rule).weight IS NULL AND NOT (seen.rule).by_group
    AND ((seen.rule).concurrency IS NULL
      OR (seen.kept).held + slots + coalesce(seen.permits, 0) + 1 <= (seen.rule).concurrency)
  THEN
    RETURN given;
  END IF;
  one := {schema}.release_hold(seen.kept, seen.rule, slots, ats, now);
  IF one.id IS NOT NULL THEN
    given := given || one;
  END IF;
  IF (seen.rule).probes IS NOT NULL AND tokens IS NOT NULL
    AND {schema}.tell_breaker(seen.kept, seen.rule, leases, tokens, ats, now)
  THEN
    given := given || {schema}.window_freed((seen.kept).name, (seen.kept).grp, now);
  END IF;
  RETURN given;
END
$$;
