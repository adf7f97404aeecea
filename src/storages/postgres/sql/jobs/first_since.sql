-- The place in the order of adding from which on jobs of a queue in this state were added at or after an instant, found by halving.
CREATE OR REPLACE FUNCTION {schema}.first_since(queue text, state text, instant float8) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  next record;
BEGIN
  SELECT j.seq INTO low FROM {schema}.jobs j
  WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
  ORDER BY j.seq LIMIT 1;
  IF low IS NULL THEN
    RETURN 0;
  END IF;
  SELECT j.seq + 1 INTO high FROM {schema}.jobs j
  WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
  ORDER BY j.seq DESC LIMIT 1;
  WHILE low < high LOOP
    middle := (low + high) / 2;
    SELECT j.seq, j.created_at INTO next FROM {schema}.jobs j
    WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
      AND j.seq >= middle ORDER BY j.seq LIMIT 1;
    IF NOT FOUND OR next.created_at >= instant THEN
      high := middle;
    ELSE
      low := next.seq + 1;
    END IF;
  END LOOP;
  RETURN low;
END
$$;
