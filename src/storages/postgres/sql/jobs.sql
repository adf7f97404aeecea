-- Reading jobs: find, list, history, endings. No locks.

-- The jobs of these ids (a list), in this order; null where there is none. As many of the first as have so many bytes of data and
-- results, but one in any case: the answer is shorter than the list then. One that has come due is shown as waiting: the next claim
-- will write that down.
CREATE OR REPLACE FUNCTION {schema}.find_jobs_{version}(ids json, bytes float8) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8 := {schema}.present();
  skew float8 := {schema}.skew();
BEGIN
  RETURN (SELECT coalesce(json_agg(CASE
      WHEN j.id IS NULL THEN NULL
      WHEN j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) THEN
        {schema}.job_json(jsonb_populate_record(j,
          jsonb_build_object('state', 'waiting', 'due_at', coalesce(j.first_due_at, j.due_at))), skew)
      ELSE {schema}.job_json(j, skew) END ORDER BY i.no), '[]')
    FROM (
      SELECT i.id, i.no,
        sum(coalesce(octet_length(s.data), 0) + coalesce(octet_length(s.result), 0)) OVER (ORDER BY i.no) AS total
      FROM json_array_elements_text(ids) WITH ORDINALITY AS i (id, no) LEFT JOIN {schema}.jobs s ON s.id = i.id
    ) i LEFT JOIN {schema}.jobs j ON j.id = i.id WHERE i.no = 1 OR i.total <= bytes);
END
$$;

-- The job that has this idempotency key, as find_jobs gives it: a list with one element, or none where the key is not kept.
CREATE OR REPLACE FUNCTION {schema}.find_by_key_{version}(queue text, key text) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  RETURN {schema}.find_jobs_{version}((SELECT coalesce(json_agg(k.job), '[]') FROM {schema}.keys k
    WHERE k.queue = find_by_key_{version}.queue AND k.key = find_by_key_{version}.key AND k.expires_at > now), 0);
END
$$;

-- A page of the jobs of a queue, the newest first. Those that have come due are shown as such, whether or not a claim
-- came since.
--
-- query: {queue, states, type, grp, since, until, most, bytes, after}; after: the number of the last job of the page before; bytes: so
-- much data, and so many results, but one job in any case. Answer: {jobs: a list as job_json gives them, more: there is another page}.
-- Each state is a range of its own in the index; the ranges are merged.
CREATE OR REPLACE FUNCTION {schema}.list_jobs_{version}(query json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  q record;
  skew float8 := {schema}.skew();
BEGIN
  SELECT * INTO q FROM json_to_record(query) AS r (queue text, states text[], type text, grp text, since float8, until float8,
    most integer, bytes float8, after bigint);
  PERFORM {schema}.show_due(q.queue);
  RETURN (
    WITH page AS MATERIALIZED (
      SELECT p.id, p.seq, row_number() OVER (ORDER BY p.seq DESC) AS no,
        sum(octet_length(s.data) + coalesce(octet_length(s.result), 0)) OVER (ORDER BY p.seq DESC) AS total
      FROM (
        SELECT i.id, i.seq FROM unnest(q.states) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type,
          q.grp, q.since + skew, q.until + skew, NULL, NULL, true, q.after, q.most + 1) i
        ORDER BY i.seq DESC LIMIT q.most + 1
      ) p JOIN {schema}.jobs s ON s.id = p.id
    )
    SELECT json_build_object('jobs', coalesce(json_agg({schema}.job_json(j, skew) ORDER BY p.seq DESC), '[]'),
      'more', (SELECT count(*) FROM page) > count(*))
    FROM page p JOIN {schema}.jobs j ON j.id = p.id WHERE p.no <= q.most AND (p.no = 1 OR p.total <= q.bytes));
END
$$;

-- Jobs of a queue in one state, in the order of adding, so many at the most: their numbers and ids. What is NULL does not matter.
--
-- since, until: added at or after, and before. ended_before: ended at or before. unasked: only those that are not asked to
-- stop. newest: the newest first. after: only those after this number in the order.
--
-- Instants of two processes may lie so far apart that the order of adding differs: a second is allowed for.
CREATE OR REPLACE FUNCTION {schema}.ids_in_state(queue text, state text, type text, grp text, since float8, until float8,
  ended_before float8, unasked boolean, newest boolean, after bigint, most integer) RETURNS TABLE (seq bigint, id text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint := 0;
  high bigint := 9223372036854775807;
BEGIN
  IF state <> 'active' AND since IS NOT NULL THEN
    low := {schema}.first_since(queue, state, since - 1000);
  END IF;
  IF state <> 'active' AND until IS NOT NULL THEN
    high := {schema}.first_since(queue, state, until + 1000);
  END IF;
  IF newest THEN
    high := least(high, after);
  ELSE
    low := greatest(low, after + 1);
  END IF;
  IF state = 'active' THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.state = 'active' AND j.queue = ids_in_state.queue AND j.seq >= low AND j.seq < high
        AND (since IS NULL OR j.created_at >= since) AND (until IS NULL OR j.created_at < until)
        AND (ids_in_state.type IS NULL OR j.type = ids_in_state.type) AND (ids_in_state.grp IS NULL OR j.grp = ids_in_state.grp)
        AND ended_before IS NULL AND (unasked IS NOT TRUE OR NOT j.cancel_requested)
      ORDER BY CASE WHEN newest THEN -j.seq ELSE j.seq END LIMIT most;
  ELSIF newest THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_in_state.queue AND j.state COLLATE "POSIX" = ids_in_state.state AND j.state COLLATE "POSIX" <> 'active'
        AND j.seq >= low AND j.seq < high
        AND (since IS NULL OR j.created_at >= since) AND (until IS NULL OR j.created_at < until)
        AND (ids_in_state.type IS NULL OR j.type = ids_in_state.type) AND (ids_in_state.grp IS NULL OR j.grp = ids_in_state.grp)
        AND (ended_before IS NULL OR j.finished_at <= ended_before)
      ORDER BY j.seq DESC LIMIT most;
  ELSE
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_in_state.queue AND j.state COLLATE "POSIX" = ids_in_state.state AND j.state COLLATE "POSIX" <> 'active'
        AND j.seq >= low AND j.seq < high
        AND (since IS NULL OR j.created_at >= since) AND (until IS NULL OR j.created_at < until)
        AND (ids_in_state.type IS NULL OR j.type = ids_in_state.type) AND (ids_in_state.grp IS NULL OR j.grp = ids_in_state.grp)
        AND (ended_before IS NULL OR j.finished_at <= ended_before)
      ORDER BY j.seq LIMIT most;
  END IF;
END
$$;

-- Jobs of a queue that are scheduled, in the order of adding, so many at the most: their numbers and ids. due: those that have come
-- due and are not shown as such yet; coming: the others. type, grp: NULL does not matter.
CREATE OR REPLACE FUNCTION {schema}.ids_scheduled(queue text, type text, grp text, due boolean, coming boolean, now float8,
  most integer) RETURNS TABLE (seq bigint, id text)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coming THEN
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue COLLATE "POSIX" = ids_scheduled.queue AND j.state COLLATE "POSIX" = 'scheduled' AND j.state COLLATE "POSIX" <> 'active'
        AND (due OR j.due_at > now OR NOT {schema}.has_passed(j.due_wall))
        AND (ids_scheduled.type IS NULL OR j.type = ids_scheduled.type) AND (ids_scheduled.grp IS NULL OR j.grp = ids_scheduled.grp)
      ORDER BY j.seq LIMIT most;
  ELSIF due THEN
    -- Few of many: another index finds them.
    RETURN QUERY SELECT j.seq, j.id FROM {schema}.jobs j
      WHERE j.queue = ids_scheduled.queue AND j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall)
        AND (ids_scheduled.type IS NULL OR j.type = ids_scheduled.type) AND (ids_scheduled.grp IS NULL OR j.grp = ids_scheduled.grp)
      ORDER BY j.seq LIMIT most;
  END IF;
END
$$;

-- The place in the order of adding from which on jobs of a queue in this state were added at or after an instant, found by halving.
CREATE OR REPLACE FUNCTION {schema}.first_since(queue text, state text, instant float8) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  low bigint;
  high bigint;
  middle bigint;
  next record;
BEGIN
  SELECT j.seq INTO low FROM {schema}.jobs j
  WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
  ORDER BY j.seq LIMIT 1;
  IF low IS NULL THEN
    RETURN 0;
  END IF;
  SELECT j.seq + 1 INTO high FROM {schema}.jobs j
  WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
  ORDER BY j.seq DESC LIMIT 1;
  WHILE low < high LOOP
    middle := (low + high) / 2;
    SELECT j.seq, j.created_at INTO next FROM {schema}.jobs j
    WHERE j.queue COLLATE "POSIX" = first_since.queue AND j.state COLLATE "POSIX" = first_since.state AND j.state COLLATE "POSIX" <> 'active'
      AND j.seq >= middle ORDER BY j.seq LIMIT 1;
    IF NOT FOUND OR next.created_at >= instant THEN
      high := middle;
    ELSE
      low := next.seq + 1;
    END IF;
  END LOOP;
  RETURN low;
END
$$;

-- The attempts of a job that failed, and what it logged, oldest first: {attempts: [[attempt, started_at, ended_at, worker, error]],
-- log: [[at, attempt, text]]}.
CREATE OR REPLACE FUNCTION {schema}.job_history_{version}(id text) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object(
    'attempts', coalesce((SELECT json_agg(json_build_array(a.attempt, a.started_at - m.skew, a.ended_at - m.skew, a.worker, a.error) ORDER BY a.seq)
      FROM {schema}.jobs j JOIN {schema}.attempts a ON a.job = j.seq WHERE j.id = job_history_{version}.id), '[]'),
    'log', coalesce((SELECT json_agg(json_build_array(l.at - m.skew, l.attempt, l.text) ORDER BY l.seq)
      FROM {schema}.jobs j JOIN {schema}.log l ON l.job = j.seq WHERE j.id = job_history_{version}.id), '[]'))::text
  FROM (SELECT {schema}.skew() AS skew) m
$$;

-- How those of these jobs (a list of ids) ended that have: [[id, state, result, error]], without the last where they are NULL, and
-- [id] where there is no such job. Of large results no more than `most` bytes, and one at least; more: there are others.
CREATE OR REPLACE FUNCTION {schema}.endings_{version}(ids json, most integer) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
  SELECT json_build_object('ended', coalesce(json_agg(CASE
      WHEN f.state IS NULL THEN json_build_array(f.id)
      WHEN f.error IS NOT NULL THEN json_build_array(f.id, f.state, f.result, f.error)
      WHEN f.result IS NOT NULL THEN json_build_array(f.id, f.state, f.result)
      ELSE json_build_array(f.id, f.state) END ORDER BY f.no) FILTER (WHERE f.before < most), '[]'),
    'more', coalesce(bool_or(f.before >= most), false))
  FROM (
    SELECT i.id, i.no, j.state, j.result, CASE WHEN j.state <> 'completed' THEN j.error END AS error,
      coalesce(sum(octet_length(j.result)) OVER (ORDER BY i.no ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) AS before
    FROM json_array_elements_text(ids) WITH ORDINALITY AS i (id, no) LEFT JOIN {schema}.jobs j ON j.id = i.id
    WHERE j.id IS NULL OR j.state IN ('completed', 'dead', 'cancelled')
  ) f
$$;

-- A job as all steps answer with it: its columns in the order of jobs/record.ts. Without their names, for those would be most
-- of the answer; and without the last of them where they are empty, as they almost always are. A plan for retries that says nothing
-- of its own is NULL. Instants are those of the clock of the server, which the clock of the storage is ahead of by `skew`.
CREATE OR REPLACE FUNCTION {schema}.job_json(j {schema}.jobs, skew float8) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN j.grp IS NULL AND j.keys IS NULL AND j.weights IS NULL AND j.timeout IS NULL AND j.deadline IS NULL AND j.holds = 0
      AND j.finished_at IS NULL AND NOT j.cancel_requested AND j.progress IS NULL AND j.error IS NULL AND j.idempotency_key IS NULL
    THEN json_build_array(j.seq, j.id, j.queue, j.type, j.state, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}'), j.keep_for, j.created_at - skew,
      coalesce(j.due_wall, j.due_at - skew), j.started_at - skew,
      j.worker, j.lease_until - skew, j.token)
    ELSE json_build_array(j.seq, j.id, j.queue, j.type, j.state, j.priority, j.data, j.attempt, j.max_attempts,
      nullif(j.backoff, '{"kind":"exponential","initial":1000,"max":600000}'), j.keep_for, j.created_at - skew,
      coalesce(j.due_wall, j.due_at - skew), j.started_at - skew,
      j.worker, j.lease_until - skew, j.token, j.grp, j.weights, j.timeout,
      coalesce(j.deadline_wall, j.deadline - skew), j.holds, j.finished_at - skew, j.cancel_requested,
      j.progress, j.result, j.error, j.idempotency_key, j.keys) END
$$;
