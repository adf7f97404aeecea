-- The permit of this number has ended. Its start stays counted, and may be corrected while a window sees it; that it has
-- ended is told by the number below zero. The lock of the name is held.
--
-- id: the limit. started_at: when it was taken. until: until when it may be corrected, though it may have left every window.
CREATE OR REPLACE FUNCTION {schema}.end_start(id bigint, number bigint, started_at float8, until float8, now float8)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts SET token = -token, since = greatest(since, until) WHERE token = number;
  IF FOUND OR until <= now THEN
    RETURN;
  END IF;
  -- Its row is gone already, and it would pass for one that goes on.
  INSERT INTO {schema}.starts (limit_id, at, since, n, token) VALUES (id, started_at, until, 0, -number);
  UPDATE {schema}.limits l SET newest = started_at WHERE l.id = end_start.id AND (newest IS NULL OR newest < started_at);
END
$$;
