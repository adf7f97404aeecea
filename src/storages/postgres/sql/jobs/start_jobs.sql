-- Starts jobs that are locked, in this order: the first gets the token `first`, the next one the next number, and so on. limits:
-- what each of them took. sure: those beyond so many start only if they have another attempt after this one. heard: somebody wants to
-- hear of it. Answers with the jobs, as job_json, and how many they are.
CREATE OR REPLACE FUNCTION {schema}.start_jobs(ats tid[], first bigint, worker text, claim text, lease_ms float8, limits jsonb,
  sure integer, heard boolean, now float8, OUT jobs json, OUT count integer)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  WITH started AS (
    UPDATE {schema}.jobs j SET state = 'active', attempt = j.attempt + 1, started_at = now, lease_until = now + lease_ms,
      worker = start_jobs.worker, claim = start_jobs.claim, limits = start_jobs.limits, token = first + p.no - 1
    FROM unnest(ats) WITH ORDINALITY AS p (at, no)
    WHERE j.ctid = p.at AND (p.no <= sure OR j.attempt + 1 < j.max_attempts)
    RETURNING j.token, {schema}.job_json(j) AS job
  )
  SELECT json_agg(s.job ORDER BY s.token), count(*) INTO jobs, count FROM started s;
  IF heard THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, json_build_object('event', 'started', 'queue', s.job -> 2, 'id', s.job -> 1, 'type', s.job -> 3,
      'attempt', s.job -> 7, 'worker', worker)
    FROM json_array_elements(jobs) WITH ORDINALITY AS s (job, no) ORDER BY s.no;
  END IF;
END
$$;
