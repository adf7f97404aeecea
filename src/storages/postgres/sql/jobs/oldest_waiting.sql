-- How long the first of the waiting jobs of a queue has been due, in ms; NULL: none waits.
--
-- Jobs are due when they are added, or later: once one is found that was due before the next was even added, it is the oldest.
-- As a rule that is the first.
CREATE OR REPLACE FUNCTION {schema}.oldest_waiting(queue text, now float8) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  job record;
  oldest float8;
BEGIN
  FOR job IN
    SELECT j.created_at, j.due_at FROM {schema}.jobs j
    WHERE j.queue COLLATE "POSIX" = oldest_waiting.queue AND j.state COLLATE "POSIX" = 'waiting' AND j.state COLLATE "POSIX" <> 'active'
    ORDER BY j.seq
  LOOP
    EXIT WHEN job.created_at >= oldest;
    oldest := least(oldest, job.due_at);
  END LOOP;
  RETURN greatest(0, now - oldest) + CASE WHEN oldest IS NULL THEN NULL ELSE 0 END;
END
$$;
