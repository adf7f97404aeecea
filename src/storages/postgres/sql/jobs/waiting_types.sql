-- The types of a queue of which jobs may wait, in order. From one type to the next along each index, however many jobs or lanes
-- lie between them.
CREATE OR REPLACE FUNCTION {schema}.waiting_types(queue_name text) RETURNS text[]
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE open AS (
    (SELECT type FROM {schema}.jobs WHERE queue = queue_name AND state = 'waiting' AND grp IS NULL
      ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM open o CROSS JOIN LATERAL (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = queue_name AND j.state = 'waiting' AND j.grp IS NULL AND j.type > o.type
      ORDER BY j.type LIMIT 1) n
  ), grouped AS (
    (SELECT type FROM {schema}.jobs WHERE queue = queue_name AND state = 'waiting' AND grp IS NOT NULL
      ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM grouped o CROSS JOIN LATERAL (SELECT j.type FROM {schema}.jobs j
      WHERE j.queue = queue_name AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.type > o.type
      ORDER BY j.type LIMIT 1) n
  ), ready AS (
    (SELECT type FROM {schema}.lanes WHERE queue = queue_name AND ready AND blocked_until IS NULL ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM ready o CROSS JOIN LATERAL (SELECT l.type FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.ready AND l.blocked_until IS NULL AND l.type > o.type ORDER BY l.type LIMIT 1) n
  ), blocked AS (
    (SELECT type FROM {schema}.lanes WHERE queue = queue_name AND ready AND blocked_until IS NOT NULL ORDER BY type LIMIT 1)
    UNION ALL
    SELECT n.type FROM blocked o CROSS JOIN LATERAL (SELECT l.type FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.ready AND l.blocked_until IS NOT NULL AND l.type > o.type ORDER BY l.type LIMIT 1) n
  )
  SELECT coalesce(array_agg(w.type), '{}') FROM (
    SELECT type FROM open UNION SELECT type FROM grouped UNION SELECT type FROM ready UNION SELECT type FROM blocked
    ORDER BY type
  ) w
$$;
