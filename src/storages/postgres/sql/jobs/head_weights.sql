-- What the first of the jobs weighs that wait with this one: of its queue, type, priority and group.
--
-- own: the job. at: now: what has come due waits.
CREATE OR REPLACE FUNCTION {schema}.head_weights(own {schema}.jobs, at float8) RETURNS jsonb
LANGUAGE sql STABLE AS $$
  SELECT f.weights FROM (
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = own.type AND j.state = 'waiting' AND j.grp IS NULL
        AND j.priority = own.priority AND own.grp IS NULL ORDER BY j.due_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT j.weights, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.type = own.type AND j.state = 'waiting' AND j.grp IS NOT NULL
        AND j.priority = own.priority AND j.grp = own.grp ORDER BY j.due_at, j.seq LIMIT 1)
    UNION ALL
    (SELECT j.weights, coalesce(j.first_due_at, j.due_at), j.seq FROM {schema}.jobs j
      WHERE j.queue = own.queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) AND j.type = own.type
        AND j.priority = own.priority AND j.grp IS NOT DISTINCT FROM own.grp ORDER BY 2, 3 LIMIT 1)
  ) f ORDER BY f.due_at, f.seq LIMIT 1
$$;
