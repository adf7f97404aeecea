-- All queues that have jobs or are paused, sorted. From one to the next along the index, however many jobs lie between them.
CREATE OR REPLACE FUNCTION {schema}.queue_names() RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE listed AS (
    (SELECT j.queue COLLATE "POSIX" AS queue FROM {schema}.jobs j WHERE j.state COLLATE "POSIX" <> 'active'
      ORDER BY j.queue COLLATE "POSIX" LIMIT 1)
    UNION ALL
    SELECT (SELECT j.queue COLLATE "POSIX" FROM {schema}.jobs j WHERE j.state COLLATE "POSIX" <> 'active' AND j.queue COLLATE "POSIX" > l.queue
      ORDER BY j.queue COLLATE "POSIX" LIMIT 1)
    FROM listed l WHERE l.queue IS NOT NULL
  )
  SELECT coalesce(array_agg(n.queue ORDER BY n.queue COLLATE "C"), '{}') FROM (
    SELECT l.queue COLLATE "C" AS queue FROM listed l WHERE l.queue IS NOT NULL
    UNION
    SELECT j.queue FROM {schema}.jobs j WHERE j.state = 'active'
    UNION
    SELECT p.queue FROM {schema}.pauses p) n
$$;
