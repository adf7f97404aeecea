-- How many jobs wait, by queue and type, of one queue or of all (NULL). Those that have come due are among them, whether or
-- not anybody has claimed since. Along the indexes of what waits: what has ended costs nothing.
CREATE OR REPLACE FUNCTION {schema}.waiting_jobs(only_queue text, at float8)
RETURNS TABLE (queue text, type text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.queue, w.type, sum(w.n)::bigint FROM (
    SELECT j.queue, j.type, count(*) AS n FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND j.grp IS NULL AND (only_queue IS NULL OR j.queue = only_queue)
      GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, count(*) FROM {schema}.jobs j
      WHERE j.state = 'waiting' AND j.grp IS NOT NULL AND (only_queue IS NULL OR j.queue = only_queue)
      GROUP BY j.queue, j.type
    UNION ALL
    SELECT j.queue, j.type, count(*) FROM {schema}.jobs j
      WHERE j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) AND (only_queue IS NULL OR j.queue = only_queue)
      GROUP BY j.queue, j.type
  ) w GROUP BY w.queue, w.type
$$;
