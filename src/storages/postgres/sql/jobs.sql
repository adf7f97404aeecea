-- Jobs as users see them: find, list, history and endings; changes (cancel, retry, promote, remove, update); pauses of queues.
--
-- Locks: reading takes none, but those of `show_due`. Changes lock the rules (shared; alone for pauses), the rows of the jobs in the order
-- of their ids, then the limits that weigh.

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

-- Changes jobs, by id or by filter.
--
-- wanted: {action, queue, ids, states} or {action, queue, states, type, grp, ended_for, most}: jobs by their ids, or the oldest
-- that are such; states: only if they are in one of these, NULL: in any that the action applies to. Answer: {changed: [id],
-- missed: how many others had been chosen, and were claimed or changed before they could be locked, woken,
-- wakeAll, stopping: [[queue, id]], events}.
--
-- Jobs that have come due count as such, whether or not a claim came since. They are not written: locking them in the order in which they
-- came due, while waiting for others in the order of their ids, could deadlock.
--
-- A transaction of the user may have a job locked for any time: it is waited for only for a moment, since other steps wait behind the
-- rules lock meanwhile. Then the client tries again (55P03).
CREATE OR REPLACE FUNCTION {schema}.change_{version}(wanted json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  q record;
  now float8;
  applies text[];
  chosen text[];
  rows record;
  weighing text[];
  woken json;
  stopping json;
  wake_all boolean;
  published boolean;
BEGIN
  SELECT * INTO q FROM json_to_record(wanted) AS r (action text, queue text, ids text[], states text[], type text, grp text,
    ended_for float8, most integer);
  applies := CASE q.action WHEN 'cancel' THEN '{waiting,scheduled,awaiting,active}' WHEN 'retry' THEN '{completed,dead,cancelled}'
    WHEN 'promote' THEN '{scheduled}' ELSE '{waiting,scheduled,awaiting,completed,dead,cancelled}' END;
  IF q.states IS NOT NULL THEN
    applies := ARRAY(SELECT s FROM unnest(applies) s WHERE s = ANY (q.states));
  END IF;
  PERFORM {schema}.begin_step();
  now := {schema}.present();
  chosen := q.ids;
  IF chosen IS NULL THEN
    chosen := ARRAY(SELECT p.id FROM (
        SELECT i.* FROM unnest(applies) AS s (state) CROSS JOIN LATERAL {schema}.ids_in_state(q.queue, s.state, q.type,
          q.grp, NULL, NULL, now - q.ended_for, q.action = 'cancel', false, NULL, q.most) i WHERE s.state <> 'scheduled'
        UNION ALL
        SELECT i.* FROM {schema}.ids_scheduled(q.queue, q.type, q.grp, 'waiting' = ANY (applies), 'scheduled' = ANY (applies), now,
          q.most) i WHERE q.ended_for IS NULL
      ) p ORDER BY p.seq LIMIT q.most);
  END IF;
  PERFORM set_config('lock_timeout', '200', true);
  -- By ids an active job is asked again to stop, and its worker is notified again; but nothing is written then.
  SELECT coalesce(array_agg(l.id), '{}') AS ids, coalesce(array_agg(l.seq), '{}') AS seqs,
    json_agg(json_build_array(q.queue, l.id)) FILTER (WHERE l.state = 'active') AS stopping,
    coalesce(array_agg(l.id) FILTER (WHERE NOT (l.state = 'active' AND l.cancel_requested)), '{}') AS changed,
    coalesce(array_agg(l.job) FILTER (WHERE l.state = 'waiting'), '{}') AS waited
  INTO rows FROM (
    SELECT j.id, j.seq, j.state, j.cancel_requested, {schema}.lane_job_of(j) AS job FROM {schema}.jobs j
    WHERE j.id = ANY (chosen) AND j.queue COLLATE "POSIX" = q.queue
      AND CASE WHEN j.state = 'scheduled' AND j.due_at <= now AND {schema}.has_passed(j.due_wall) THEN 'waiting' ELSE j.state END = ANY (applies)
    ORDER BY j.id FOR UPDATE
  ) l;
  PERFORM set_config('lock_timeout', '2000', true);
  weighing := CASE WHEN cardinality(rows.waited) > 0 THEN {schema}.weighing() ELSE '{}' END;
  IF cardinality(weighing) > 0 THEN
    PERFORM {schema}.lock_limits(weighing);
  END IF;
  now := {schema}.moment();
  published := q.action = 'cancel' AND {schema}.events_wanted(now, true);
  CASE q.action
    WHEN 'cancel' THEN
      stopping := rows.stopping;
      published := {schema}.cancel_jobs(rows.changed, now, published);
    WHEN 'remove' THEN
      PERFORM {schema}.delete_jobs(rows.seqs, rows.ids);
    ELSE
      woken := {schema}.bring_back(rows.ids, now);
  END CASE;
  wake_all := {schema}.left_lane(rows.waited);
  RETURN json_build_object('changed', ARRAY(SELECT i.id FROM (
      SELECT u.id, min(u.no) AS no FROM unnest(chosen) WITH ORDINALITY AS u (id, no) GROUP BY u.id) i
      WHERE i.id = ANY (rows.changed) ORDER BY i.no),
    'missed', cardinality(chosen) - cardinality(rows.changed), 'woken', woken, 'wakeAll', wake_all, 'stopping', stopping,
    'events', published);
END
$$;

-- Jobs that have not started are cancelled at once; an active one is asked to stop. Their rows are locked already. wanted: a listener
-- wants events; answers whether events were written.
CREATE OR REPLACE FUNCTION {schema}.cancel_jobs(ids text[], now float8, wanted boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  WITH cancelled AS (
    UPDATE {schema}.jobs j SET
      cancel_requested = j.cancel_requested OR j.state = 'active',
      state = CASE WHEN j.state = 'active' THEN 'active' ELSE 'cancelled' END,
      finished_at = CASE WHEN j.state <> 'active' THEN now END,
      delete_at = CASE WHEN j.state <> 'active' THEN now + coalesce(j.keep_for, {schema}.kept_ms('cancelled')) END
    WHERE j.id = ANY (ids)
    RETURNING j.id, j.queue, j.type, j.state
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'cancelled', 'queue', c.queue, 'id', c.id, 'type', c.type)
  FROM unnest(ids) WITH ORDINALITY AS i (id, no) JOIN cancelled c ON c.id = i.id
  WHERE wanted AND c.state = 'cancelled' ORDER BY i.no;
  RETURN FOUND;
END
$$;

-- Jobs that have ended, or are scheduled, are due now; one that backed off, at its old place. One that has ended starts from its first attempt, its history kept; a deadline
-- that has passed would end it again at once, so it is removed. Their rows are locked already.
--
-- Answers with the wake-ups: [[queue, as `wakes` says]].
CREATE OR REPLACE FUNCTION {schema}.bring_back(ids text[], now float8) RETURNS json
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  back {schema}.lane_job[];
  woken json;
BEGIN
  WITH changed AS (
    UPDATE {schema}.jobs j SET state = 'waiting', first_due_at = NULL, due_wall = NULL,
      due_at = CASE WHEN j.state = 'scheduled' THEN coalesce(j.first_due_at, now) ELSE now END,
      finished_at = NULL, delete_at = NULL, result = NULL,
      attempt = CASE WHEN j.state = 'scheduled' THEN j.attempt ELSE 0 END,
      holds = CASE WHEN j.state = 'scheduled' THEN j.holds ELSE 0 END,
      worker = CASE WHEN j.state = 'scheduled' THEN j.worker END,
      cancel_requested = j.state = 'scheduled' AND j.cancel_requested,
      deadline = CASE WHEN j.state = 'scheduled' OR j.deadline > now OR NOT {schema}.has_passed(j.deadline_wall) THEN j.deadline END,
      deadline_wall = CASE WHEN j.state = 'scheduled' OR NOT {schema}.has_passed(j.deadline_wall) THEN j.deadline_wall END
    -- Of none at all the planner believes that they may be found by any index.
    WHERE j.id = ANY (ids) AND cardinality(ids) > 0
    RETURNING {schema}.lane_job_of(j) AS job
  )
  SELECT c.jobs, {schema}.wake_ups(c.jobs, now) INTO back, woken FROM (SELECT array_agg(job) AS jobs FROM changed) c;
  PERFORM {schema}.insert_arrivals(back);
  RETURN woken;
END
$$;

-- Deletes jobs, by their numbers and ids (in the same order), with all that is kept of them. Their rows are locked already.
CREATE OR REPLACE FUNCTION {schema}.delete_jobs(seqs bigint[], ids text[]) RETURNS void
LANGUAGE sql VOLATILE AS $$
  DELETE FROM {schema}.attempts a WHERE a.job = ANY (seqs);
  DELETE FROM {schema}.log l WHERE l.job = ANY (seqs);
  DELETE FROM {schema}.jobs j WHERE j.id = ANY (ids);
$$;

-- Changes what was said of a job when it was added, if it waits or is scheduled. It keeps its place, by due_at and age, in whatever
-- lane it belongs to then, unless it is to be due at another time.
--
-- wanted: {queue, id, sets: which are to be different, data, priority, grp, keys, weights, max_attempts, backoff, timeout, keep_for, due or
-- due_in, deadline or deadline_in}. Answer: {updated, state, woken, wakeAll}; state: NULL where there is no such job. Or {refused},
-- where it could never start under the limits in force.
--
-- As in change the row is waited for only for a moment, and a job that has come due counts as one that waits.
CREATE OR REPLACE FUNCTION {schema}.update_job_{version}(wanted json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  q record;
  now float8;
  was {schema}.jobs;
  job {schema}.jobs;
  shown text;
  weighing text[];
  wake boolean;
  wake_all boolean := false;
  wrong text;
BEGIN
  SELECT * INTO q FROM json_to_record(wanted) AS r (queue text, id text, sets text[], data text, priority float8, grp text,
    keys text, weights jsonb, max_attempts bigint, backoff text, timeout float8, keep_for float8, due float8, due_in float8, deadline float8,
    deadline_in float8);
  PERFORM {schema}.begin_step();
  PERFORM set_config('lock_timeout', '200', true);
  SELECT j.* INTO was FROM {schema}.jobs j WHERE j.id = q.id AND j.queue COLLATE "POSIX" = q.queue FOR UPDATE;
  PERFORM set_config('lock_timeout', '2000', true);
  IF was.id IS NULL OR was.state NOT IN ('waiting', 'scheduled') THEN
    RETURN json_build_object('updated', false, 'state', was.state);
  END IF;
  weighing := CASE WHEN was.state = 'waiting' THEN {schema}.weighing() ELSE '{}' END;
  IF cardinality(weighing) > 0 THEN
    PERFORM {schema}.lock_limits(weighing);
  END IF;
  now := {schema}.moment();

  job := was;
  job.data := CASE WHEN 'data' = ANY (q.sets) THEN q.data ELSE was.data END;
  job.priority := CASE WHEN 'priority' = ANY (q.sets) THEN q.priority ELSE was.priority END;
  job.grp := CASE WHEN 'group' = ANY (q.sets) THEN q.grp ELSE was.grp END;
  job.keys := CASE WHEN 'keys' = ANY (q.sets) THEN q.keys ELSE was.keys END;
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
  -- Is it worth a wake-up? Asked before the row is written.
  wake := (SELECT {schema}.wakes(job.queue, job.type, job.priority, job.grp, job.keys, job.due_at, now, m.last, m.rules > 0) FROM {schema}.meta m);
  BEGIN
    UPDATE {schema}.jobs j SET data = job.data, priority = job.priority, grp = job.grp, keys = job.keys, weights = job.weights,
      max_attempts = job.max_attempts, backoff = job.backoff, timeout = job.timeout, keep_for = job.keep_for,
      deadline = job.deadline, deadline_wall = job.deadline_wall, due_at = job.due_at, due_wall = job.due_wall,
      first_due_at = job.first_due_at, state = job.state
    WHERE j.id = job.id;
    PERFORM {schema}.refuse_impossible(ARRAY[job.id]);
  EXCEPTION WHEN SQLSTATE 'SL002' THEN
    GET STACKED DIAGNOSTICS wrong = PG_EXCEPTION_DETAIL;
    RETURN json_build_object('refused', wrong::json);
  END;
  PERFORM {schema}.insert_arrivals(ARRAY[{schema}.lane_job_of(job)]);
  IF cardinality(weighing) > 0 THEN
    -- It may be lighter now than it was when a claim looked at it. 0: another than any job, so that left_lane looks again even if none is
    -- left; without a heavy head the lane would wait at a gate that there may not be.
    UPDATE {schema}.lanes l SET heavy = 0
    WHERE l.queue = was.queue AND l.type = was.type AND l.priority = was.priority AND l.grp = coalesce(':' || was.grp, '')
      AND l.keys = coalesce(was.keys, '') AND l.heavy = was.seq;
  END IF;
  IF was.state = 'waiting' THEN
    wake_all := {schema}.left_lane(ARRAY[{schema}.lane_job_of(was)]);
  END IF;
  shown := CASE WHEN job.state = 'scheduled' AND job.due_at <= now AND {schema}.has_passed(job.due_wall) THEN 'waiting'
    ELSE job.state END;
  RETURN json_build_object('updated', true, 'state', shown,
    'woken', CASE WHEN wake IS NOT NULL THEN json_build_array(json_build_array(job.queue, wake)) END, 'wakeAll', wake_all);
END
$$;

-- Nothing of the queue, or of one type in it, starts while it is paused. type: '' for the whole queue, ':' and the type for one.
-- Answer: {woken, wakeAll}. Jobs that waited behind a heavy job which is paused now are free to start.
CREATE OR REPLACE FUNCTION {schema}.set_paused_{version}(queue text, type text, paused boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  wake_all boolean := false;
BEGIN
  PERFORM {schema}.begin_step(true);
  IF paused THEN
    INSERT INTO {schema}.pauses VALUES (set_paused_{version}.queue, set_paused_{version}.type) ON CONFLICT DO NOTHING;
    PERFORM {schema}.unblock_lanes(limit_name, NULL, {schema}.present()) FROM unnest({schema}.weighing()) AS limit_name;
    wake_all := FOUND;
  ELSE
    DELETE FROM {schema}.pauses p WHERE p.queue = set_paused_{version}.queue AND p.type = set_paused_{version}.type;
  END IF;
  RETURN json_build_object('wakeAll', wake_all,
    'woken', CASE WHEN NOT paused THEN json_build_array(json_build_array(set_paused_{version}.queue, true)) END);
END
$$;

-- How long a job that ended is kept if it does not say so itself: a day, and 30 days if dead.
CREATE OR REPLACE FUNCTION {schema}.kept_ms(state text) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE state WHEN 'dead' THEN 2592000000 ELSE 86400000 END::float8
$$;
