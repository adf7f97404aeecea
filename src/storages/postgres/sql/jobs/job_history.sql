-- The attempts of a job that failed, and what it logged, oldest first: {attempts: [[attempt, started_at, ended_at, worker, error]],
-- log: [[at, attempt, text]]}.
CREATE OR REPLACE FUNCTION {schema}.job_history(id text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object(
    'attempts', coalesce((SELECT json_agg(json_build_array(a.attempt, a.started_at - m.skew, a.ended_at - m.skew, a.worker, a.error) ORDER BY a.seq)
      FROM {schema}.jobs j JOIN {schema}.attempts a ON a.job = j.seq WHERE j.id = job_history.id), '[]'),
    'log', coalesce((SELECT json_agg(json_build_array(l.at - m.skew, l.attempt, l.text) ORDER BY l.seq)
      FROM {schema}.jobs j JOIN {schema}.log l ON l.job = j.seq WHERE j.id = job_history.id), '[]'))::text
  FROM (SELECT {schema}.skew() AS skew) m
$$;
