-- Jobs of a queue that are scheduled, in the order of adding, so many at the most: their numbers and ids. due: those that have come
-- due, though nobody has noticed yet; coming: the others. type, grp: NULL does not matter.
CREATE OR REPLACE FUNCTION {schema}.ids_scheduled(queue text, type text, grp text, due boolean, coming boolean, now float8,
  most integer) RETURNS TABLE (seq bigint, id text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coming THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_scheduled.queue AND j.state COLLATE "POSIX" = 'scheduled' AND j.state COLLATE "POSIX" <> 'active'
        AND (due OR j.due_at > now OR NOT {schema}.has_passed(j.due_wall))
        AND (ids_scheduled.type IS NULL OR j.type = ids_scheduled.type) AND (ids_scheduled.grp IS NULL OR j.grp = ids_scheduled.grp)
      ORDER BY j.seq LIMIT most;
  ELSIF due THEN
    -- Few of many: another index finds them.
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue = ids_scheduled.queue AND j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall)
        AND (ids_scheduled.type IS NULL OR j.type = ids_scheduled.type) AND (ids_scheduled.grp IS NULL OR j.grp = ids_scheduled.grp)
      ORDER BY j.seq LIMIT most;
  END IF;
END
$$;
