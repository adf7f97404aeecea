-- Changes by users: of jobs (cancel, retry, promote, remove, update) and pauses of queues.
--
-- Locks: the rules (shared; alone for pauses), the rows of the jobs in the order of their ids, then the limits that weigh.

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
  wake_all boolean := false;
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
    coalesce(array_agg((q.queue, l.type, l.priority, l.grp, l.keys)::{schema}.gone_job) FILTER (WHERE l.state = 'waiting'), '{}') AS waited
  INTO rows FROM (
    SELECT j.id, j.seq, j.state, j.type, j.priority, j.grp, j.keys, j.cancel_requested FROM {schema}.jobs j
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
  PERFORM {schema}.correct_heads(rows.waited);
  IF cardinality(weighing) > 0 THEN
    wake_all := {schema}.left_lane(rows.waited);
  END IF;
  RETURN json_build_object('changed', ARRAY(SELECT i.id FROM (
      SELECT u.id, min(u.no) AS no FROM unnest(chosen) WITH ORDINALITY AS u (id, no) GROUP BY u.id) i
      WHERE i.id = ANY (rows.changed) ORDER BY i.no),
    'missed', cardinality(chosen) - cardinality(rows.changed), 'woken', woken, 'wakeAll', wake_all, 'stopping', stopping,
    'events', published);
END
$$;

-- Jobs that have not started are cancelled at once; an active one is asked to stop. Their rows are locked already. tells: a listener
-- wants events; answers whether events were written.
CREATE OR REPLACE FUNCTION {schema}.cancel_jobs(ids text[], now float8, tells boolean) RETURNS boolean
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
  WHERE tells AND c.state = 'cancelled' ORDER BY i.no;
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
  back {schema}.arrival[];
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
    RETURNING (j.seq, j.queue, j.type, j.priority, j.grp, j.keys, j.state, j.due_at)::{schema}.arrival AS job
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
  PERFORM {schema}.insert_arrivals(ARRAY[
    (job.seq, job.queue, job.type, job.priority, job.grp, job.keys, job.state, job.due_at)::{schema}.arrival]);
  PERFORM {schema}.correct_heads(ARRAY[(was.queue, was.type, was.priority, was.grp, was.keys)::{schema}.gone_job]);
  IF cardinality(weighing) > 0 THEN
    -- It may be lighter now than it was when a claim looked at it. 0: another than any job, so that left_lane looks again even if none is
    -- left; without a heavy head the lane would wait at a gate that there may not be.
    UPDATE {schema}.lanes l SET heavy = 0
    WHERE l.queue = was.queue AND l.type = was.type AND l.priority = was.priority AND l.grp = coalesce(':' || was.grp, '')
      AND l.keys = coalesce(was.keys, '') AND l.heavy = was.seq;
    wake_all := {schema}.left_lane(ARRAY[(was.queue, was.type, was.priority, was.grp, was.keys)::{schema}.gone_job]);
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
    wake_all := {schema}.unblock_weighing();
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
