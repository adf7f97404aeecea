-- Jobs of groups that wait in the priority of a job, by type and group: how many; in its own group how many of them come before it;
-- and which is the first of them. Up to 10,000 of each, in up to 10,000 groups: from one group to the next along the index.
--
-- grp: as a lane says it.
CREATE OR REPLACE FUNCTION {schema}.waiting_grouped(own {schema}.jobs)
RETURNS TABLE (type text, grp text, waiting bigint, before bigint, first bigint)
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE types AS MATERIALIZED (
    SELECT t.type FROM unnest({schema}.waiting_types(own.queue)) AS t (type)
  ), groups AS (
    SELECT t.type, n.grp FROM types t CROSS JOIN LATERAL (SELECT j.grp FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = t.type AND j.priority = own.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
      ORDER BY j.grp LIMIT 1) n
    UNION ALL
    SELECT g.type, n.grp FROM groups g CROSS JOIN LATERAL (SELECT j.grp FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = g.type AND j.priority = own.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
        AND j.grp > g.grp
      ORDER BY j.grp LIMIT 1) n
  ), known AS (
    SELECT t.type, own.grp AS grp FROM types t WHERE own.grp IS NOT NULL
    UNION
    SELECT f.type, f.grp FROM (SELECT g.type, g.grp FROM groups g LIMIT 10000) f
  )
  SELECT k.type, ':' || k.grp,
    (SELECT count(*) FROM (SELECT FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority
      AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = k.grp LIMIT 10000) w),
    CASE WHEN k.grp = own.grp THEN (SELECT count(*) FROM (SELECT FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
        AND j.grp = k.grp AND (j.due_at, j.seq) < (own.due_at, own.seq) LIMIT 10000) b) ELSE 0 END,
    (SELECT j.seq FROM {schema}.jobs j WHERE j.queue = own.queue AND j.type = k.type AND j.priority = own.priority
      AND j.state = 'waiting' AND j.grp IS NOT NULL AND j.grp = k.grp ORDER BY j.due_at, j.seq LIMIT 1)
  FROM known k
$$;
