-- Changes what was said of a job when it was added, if it waits or is scheduled. It keeps its place, by due_at and age, in whatever
-- lane it belongs to then, unless it is to be due at another time.
--
-- wanted: {queue, id, sets: which are to be different, data, priority, grp, weights, max_attempts, backoff, timeout, keep_for, due or
-- due_in, deadline or deadline_in}. Answer: {updated, state, woken, everybody}; state: NULL where there is no such job. Or {refused},
-- where it could never start under the limits in force.
--
-- As in change.sql the row is waited for only for a moment, and a job that has come due counts as one that waits.
CREATE OR REPLACE FUNCTION {schema}.update_job(wanted json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q record;
  alone boolean := {schema}.many_rules();
  now float8;
  was {schema}.jobs;
  job {schema}.jobs;
  shown text;
  weighing text[];
  news boolean;
  everybody boolean := false;
  wrong text;
BEGIN
  SELECT * INTO q FROM json_to_record(wanted) AS r (queue text, id text, sets text[], data text, priority float8, grp text,
    weights jsonb, max_attempts bigint, backoff text, timeout float8, keep_for float8, due float8, due_in float8, deadline float8,
    deadline_in float8);
  PERFORM {schema}.begin_step(alone);
  PERFORM set_config('lock_timeout', CASE WHEN alone THEN '20' ELSE '200' END, true);
  SELECT j.* INTO was FROM {schema}.jobs j WHERE j.id = q.id AND j.queue COLLATE "POSIX" = q.queue FOR UPDATE;
  PERFORM set_config('lock_timeout', '2000', true);
  IF was.id IS NULL OR was.state NOT IN ('waiting', 'scheduled') THEN
    RETURN json_build_object('updated', false, 'state', was.state);
  END IF;
  weighing := CASE WHEN was.state = 'waiting' THEN {schema}.weighing() ELSE '{}' END;
  IF NOT alone AND cardinality(weighing) > 0 THEN
    PERFORM {schema}.lock_limits(weighing);
  END IF;
  now := {schema}.moment();

  job := was;
  job.data := CASE WHEN 'data' = ANY (q.sets) THEN q.data ELSE was.data END;
  job.priority := CASE WHEN 'priority' = ANY (q.sets) THEN q.priority ELSE was.priority END;
  job.grp := CASE WHEN 'group' = ANY (q.sets) THEN q.grp ELSE was.grp END;
  job.weights := CASE WHEN 'weights' = ANY (q.sets) THEN q.weights ELSE was.weights END;
  job.max_attempts := CASE WHEN 'maxAttempts' = ANY (q.sets) THEN q.max_attempts ELSE was.max_attempts END;
  job.backoff := CASE WHEN 'backoff' = ANY (q.sets) THEN q.backoff ELSE was.backoff END;
  job.timeout := CASE WHEN 'timeout' = ANY (q.sets) THEN q.timeout ELSE was.timeout END;
  job.keep_for := CASE WHEN 'keepFor' = ANY (q.sets) THEN q.keep_for ELSE was.keep_for END;
  IF 'deadline' = ANY (q.sets) THEN
    job.deadline := coalesce(q.deadline + {schema}.skew(), now + q.deadline_in);
    job.deadline_wall := q.deadline;
  END IF;
  IF 'due' = ANY (q.sets) THEN
    job.due_at := greatest(now, coalesce(q.due + {schema}.skew(), now + q.due_in));
    job.due_wall := CASE WHEN job.due_at > now THEN q.due END;
    job.first_due_at := NULL;
    job.state := CASE WHEN job.due_at > now THEN 'scheduled' ELSE 'waiting' END;
  END IF;
  -- What others are to hear of it, as it is before it is there.
  news := CASE WHEN job.state = 'waiting' THEN {schema}.lane_news(job.queue, job.type, job.priority, job.grp, now)
    ELSE {schema}.is_first_due(job.queue, job.type, job.due_at) END;
  BEGIN
    UPDATE {schema}.jobs j SET data = job.data, priority = job.priority, grp = job.grp, weights = job.weights,
      max_attempts = job.max_attempts, backoff = job.backoff, timeout = job.timeout, keep_for = job.keep_for,
      deadline = job.deadline, deadline_wall = job.deadline_wall, due_at = job.due_at, due_wall = job.due_wall,
      first_due_at = job.first_due_at, state = job.state
    WHERE j.id = job.id;
    PERFORM {schema}.refuse_impossible(ARRAY[job.id]);
  EXCEPTION WHEN SQLSTATE 'SL002' THEN
    GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL;
    RETURN json_build_object('refused', wrong::json);
  END;
  IF job.state = 'waiting' AND job.grp IS NOT NULL THEN
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    VALUES (job.queue, job.type, job.priority, job.grp, job.due_at, job.seq);
  END IF;
  IF cardinality(weighing) > 0 THEN
    -- It may be lighter now than it was when a claim looked at it.
    UPDATE {schema}.lanes l SET heavy = NULL
    WHERE l.queue = was.queue AND l.type = was.type AND l.priority = was.priority AND l.grp = coalesce(':' || was.grp, '')
      AND l.heavy = was.seq;
    everybody := {schema}.left_lane(ARRAY[(was.queue, was.type, was.priority, was.grp)::{schema}.gone_job]);
  END IF;
  shown := CASE WHEN job.state = 'scheduled' AND job.due_at <= now AND {schema}.has_passed(job.due_wall) THEN 'waiting'
    ELSE job.state END;
  RETURN json_build_object('updated', true, 'state', shown,
    'woken', CASE WHEN news IS NOT NULL THEN json_build_array(json_build_array(job.queue, news)) END, 'everybody', everybody);
END
$$;
