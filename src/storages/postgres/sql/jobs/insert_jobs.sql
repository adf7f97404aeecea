-- Puts jobs into the table, in their order; fails if one of their ids is there already. jobs: a list as jobs/add.ts writes it.
CREATE OR REPLACE FUNCTION {schema}.insert_jobs(jobs json, now float8)
RETURNS TABLE (seq bigint, id text, queue text, type text, state text, priority float8, grp text, due_at float8)
LANGUAGE sql VOLATILE AS $$
  INSERT INTO {schema}.jobs AS j (id, queue, type, state, priority, grp, data, weights, max_attempts, backoff, timeout, deadline,
    deadline_wall, keep_for, created_at, due_at, due_wall, idempotency_key)
  SELECT n.id, n.queue, n.type, CASE WHEN due.at <= now THEN 'waiting' ELSE 'scheduled' END, n.priority, n.grp, n.data,
    n.weights, n.max_attempts, n.backoff, n.timeout, coalesce(n.deadline + m.skew, now + n.deadline_in), n.deadline,
    n.keep_for, now, due.at, CASE WHEN due.at > now THEN n.due END, n.key
  FROM ROWS FROM (json_to_recordset(insert_jobs.jobs) AS (id text, queue text, type text, data text, due float8, due_in float8,
    priority float8, grp text, weights jsonb, max_attempts bigint, backoff text, timeout float8, deadline float8,
    deadline_in float8, keep_for float8, key text)) WITH ORDINALITY
    AS n (id, queue, type, data, due, due_in, priority, grp, weights, max_attempts, backoff, timeout, deadline, deadline_in,
      keep_for, key, no)
  CROSS JOIN (SELECT {schema}.skew() AS skew) m
  CROSS JOIN LATERAL (SELECT greatest(now, coalesce(n.due + m.skew, now + n.due_in)) AS at) due
  ORDER BY n.no
  RETURNING j.seq, j.id, j.queue, j.type, j.state, j.priority, j.grp, j.due_at
$$;
