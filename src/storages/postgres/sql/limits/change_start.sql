-- A start in the log turns out to be another: when it was, what it counts for, what was charged for it before, and until
-- when it is kept. The lock of the name is held. What is charged at another instant has nothing to do with its call any more.
CREATE OR REPLACE FUNCTION {schema}.change_start(
  start {schema}.starts, to_at float8, to_since float8, to_n float8, to_spent float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts AS s SET at = to_at, since = to_since, n = to_n, spent = to_spent,
      claim = CASE WHEN to_at = s.at THEN s.claim END, began = CASE WHEN to_at = s.at THEN s.began END
    WHERE s.seq = start.seq;
  IF to_at > start.at THEN
    UPDATE {schema}.limits SET newest = to_at WHERE id = start.limit_id AND (newest IS NULL OR newest < to_at);
  END IF;
  PERFORM {schema}.shift_total(start.limit_id, start.at, -start.n);
  PERFORM {schema}.shift_total(start.limit_id, to_at, to_n);
END
$$;
