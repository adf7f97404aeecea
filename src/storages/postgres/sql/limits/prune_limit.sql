-- Deletes what need not be kept of one limit, and the limit itself where nobody uses it. Answers how many rows. There may be
-- very many groups: what does not count any more is dropped at once, and whole; a name is remembered for a day, for nobody
-- is likely to ask for a longer window then.
CREATE OR REPLACE FUNCTION {schema}.prune_limit(id bigint, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
  deleted integer;
  forgotten float8;
  oldest float8;
  again float8;
BEGIN
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = prune_limit.id;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  IF kept.grp <> '' AND (kept.newest IS NULL OR now - kept.newest >= kept.longest) AND {schema}.is_idle(kept, now)
    -- Starts may have been called later than they were granted, or be called yet.
    AND NOT EXISTS (SELECT FROM {schema}.starts AS s WHERE s.limit_id = kept.id AND s.at > now - kept.longest)
    AND NOT EXISTS (SELECT FROM {schema}.starts AS s
      WHERE s.limit_id = kept.id AND s.claim IS NOT NULL AND s.at > now - kept.longest - 3600000)
  THEN
    RETURN {schema}.drop_idle(kept, now);
  END IF;
  SELECT f.deleted, f.newest INTO deleted, forgotten FROM {schema}.forget_starts(kept, now) AS f;
  SELECT s.at INTO oldest FROM {schema}.starts AS s WHERE s.limit_id = kept.id ORDER BY s.at, s.seq LIMIT 1;
  IF kept.grp <> '' THEN
    again := greatest({schema}.next_prune(now, NULL, kept.longest), kept.newest + kept.longest, kept.pause_until);
  ELSIF deleted > 0 THEN
    again := {schema}.next_prune(now, oldest, kept.longest);
  ELSIF oldest IS NOT NULL OR NOT {schema}.is_idle(kept, now) THEN
    again := greatest({schema}.next_prune(now, oldest, kept.longest), kept.pause_until);
  ELSE
    again := greatest(kept.forgotten_at, kept.pause_until, kept.latest_at, 0) + 86400000 + kept.longest;
    IF again <= now THEN
      DELETE FROM {schema}.limits AS l WHERE l.id = kept.id;
      RETURN 1;
    END IF;
  END IF;
  UPDATE {schema}.limits AS l
    SET prune_at = CASE WHEN deleted = 500 THEN prune_limit.now ELSE again END,
      forgotten_at = greatest(l.forgotten_at, forgotten)
    WHERE l.id = kept.id;
  RETURN deleted;
END
$$;
