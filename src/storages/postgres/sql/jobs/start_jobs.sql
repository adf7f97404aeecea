-- Starts jobs that are locked, in this order: the first gets the token `first`, the next one the next number, and so on. limits:
-- what each of them took; own_limits: the same, where it is different for each. sure: those beyond so many start only if this is the first of several attempts. heard: somebody wants
-- to hear of it. at: when.
--
-- Answers with what is different about them: [at, tokens, ids, ...], each a list, as jobs/started.ts reads it. What is the same for
-- all is known to who asks, and a list of each kind takes a fraction of the time that one for each job would.
CREATE OR REPLACE FUNCTION {schema}.start_jobs(ats tid[], first bigint, queue text, worker text, claim bigint, lease_ms float8,
  limits jsonb, sure integer, heard boolean, at float8, own_limits text[] DEFAULT NULL) RETURNS {schema}.started_jobs
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  started {schema}.started_jobs;
  -- Jobs are shown by the clock of the server.
  skew float8;
BEGIN
  SELECT greatest(m.skew, m.last - {schema}.wall()) INTO skew FROM {schema}.meta m;
  WITH begun AS (
    UPDATE {schema}.jobs j SET state = 'active', attempt = j.attempt + 1, started_at = start_jobs.at,
      lease_until = start_jobs.at + lease_ms, worker = start_jobs.worker, claim = start_jobs.claim, limits = coalesce(own_limits[p.no]::jsonb, start_jobs.limits),
      token = first + p.no - 1
    FROM unnest(ats) WITH ORDINALITY AS p (at, no)
    WHERE j.ctid = p.at AND (p.no <= sure OR (j.attempt = 0 AND j.max_attempts > 1))
    RETURNING j.token, j.seq, j.id, j.type, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}') AS backoff, j.keep_for, j.created_at, j.due_at, j.grp,
      CASE WHEN j.weights IS NOT NULL OR j.timeout IS NOT NULL OR j.deadline IS NOT NULL OR j.holds <> 0 OR j.cancel_requested
        OR j.progress IS NOT NULL OR j.error IS NOT NULL OR j.idempotency_key IS NOT NULL
      THEN json_build_array(j.weights, j.timeout, coalesce(j.deadline_wall, j.deadline - skew), j.holds, j.cancel_requested, j.progress, j.error, j.idempotency_key)
      END AS rest
  )
  SELECT json_build_array(start_jobs.at - skew, json_agg(b.token), json_agg(b.id), json_agg(b.type), json_agg(b.priority),
      json_agg(b.data), json_agg(b.attempt), json_agg(b.max_attempts), json_agg(b.backoff), json_agg(b.keep_for),
      json_agg(b.created_at - skew), array_agg(b.due_at - skew), json_agg(b.grp), json_agg(b.rest)),
    count(*), (array_agg(b.due_at))[count(*)], (array_agg(b.seq))[count(*)]
  INTO started FROM begun b;
  IF heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT start_jobs.at, json_build_object('event', 'started', 'queue', queue, 'id', s.id, 'type', s.type, 'attempt', s.attempt,
      'worker', worker)
    FROM ROWS FROM (json_array_elements(started.jobs -> 1), json_array_elements(started.jobs -> 2),
      json_array_elements(started.jobs -> 3), json_array_elements(started.jobs -> 6)) AS s (token, id, type, attempt)
    WHERE s.id IS NOT NULL ORDER BY s.token::text::bigint;
  END IF;
  IF started.count = 0 THEN
    started.jobs := NULL;
  END IF;
  RETURN started;
END
$$;
