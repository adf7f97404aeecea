-- So many slots of a limit have been given back, that were held since these instants: lanes that waited for them may look
-- again at once. Answers with how long one more had to wait for them before, for is_news; NULL: nobody need know. What jobs
-- hold is written already.
CREATE OR REPLACE FUNCTION {schema}.release_hold(
  kept {schema}.limits, rule {schema}.limit_rule, slots float8, ats float8[], now float8
) RETURNS {schema}.limit_given
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given;
  open_until float8 := CASE WHEN rule.probes IS NOT NULL THEN kept.open_until END;
  concurrency float8 := rule.concurrency;
  held record;
BEGIN
  -- What held nothing only kept a group in mind.
  IF rule.name IS NULL OR (slots = 0 AND rule.probes IS NULL) THEN
    RETURN NULL;
  END IF;
  given.awaited := false;
  IF rule.by_group THEN
    concurrency := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).concurrency;
    given.awaited := {schema}.unblock_lanes(rule.name, ARRAY[{schema}.lane_grp(kept.grp)], now);
  ELSIF rule.weight IS NOT NULL THEN
    given.awaited := {schema}.unblock_lanes(rule.name, NULL, now);
  END IF;
  held := {schema}.held_of(kept.id, kept.held, open_until, now);
  given.id := kept.id;
  given.name := kept.name;
  given.grp := kept.grp;
  given.slots := held.slots + slots;
  given.wait := 0;
  IF given.slots + 1 > concurrency THEN
    given.wait := CASE WHEN concurrency = 0 THEN 'Infinity' WHEN concurrency < 1 THEN -1 ELSE held.expires_in END;
  END IF;
  IF open_until <= now
    AND held.probes + (SELECT count(*) FROM unnest(ats) AS at WHERE at >= open_until) >= rule.probes
  THEN
    given.wait := greatest(given.wait, held.expires_in);
  END IF;
  -- Where there was room, more of it is news only for those who need more than one.
  IF given.wait = 0 AND rule.weight IS NULL THEN
    RETURN NULL;
  END IF;
  RETURN given;
END
$$;
