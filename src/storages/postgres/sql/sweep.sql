-- Housekeeping: leases that ran out, deadlines that passed, and rows that were kept long enough.
--
-- Locks: the rules (shared), the limits of what is recovered. Jobs and all other rows are taken with SKIP LOCKED.

-- Housekeeping, in small steps. Answer: {stalled, deleted, more, woken, wakeAll, events}.
CREATE OR REPLACE FUNCTION {schema}.sweep_{version}() RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET jit = off SET enable_seqscan = off AS $$
DECLARE
  now float8;
  lost record;
  late record;
  again record;
  weighing text[];
  limits record;
  old record;
  lanes integer;
  arriving record;
  wake_all boolean;
BEGIN
  PERFORM {schema}.begin_step();
  weighing := {schema}.weighing();
  SELECT * INTO late FROM {schema}.end_late({schema}.present());
  SELECT * INTO lost FROM {schema}.recover(weighing);
  wake_all := lost.wake_all;
  now := {schema}.moment();
  -- Those that have just come back may be too late for another attempt.
  SELECT * INTO again FROM {schema}.end_late(now);
  wake_all := {schema}.left_lane(late.gone || again.gone) OR wake_all;
  SELECT * INTO limits FROM {schema}.prune_limits(now);
  arriving := {schema}.sweep_arrivals(now, weighing);
  wake_all := wake_all OR arriving.wake_all;
  lanes := {schema}.sweep_lanes(now);
  SELECT * INTO old FROM {schema}.prune_rows(now);
  RETURN json_build_object('stalled', lost.stalled, 'deleted', old.deleted + limits.deleted + lanes,
    'more', old.more OR limits.more OR lanes = 500 OR arriving.more OR lost.stalled = 500 OR late.ended = 1000 OR again.ended = 1000,
    'woken', lost.woken, 'wakeAll', wake_all, 'events', lost.published OR late.published OR again.published);
END
$$;

-- Jobs whose lease has expired wait again, 500 at the most, unless that was their last attempt or they are to be cancelled. They take
-- their old place: otherwise a crash of their worker would cost them the whole backlog.
--
-- names: limits to be locked beside those of the jobs. stalled: how many. woken, wakeAll:
-- as all steps answer. published: events were written.
CREATE OR REPLACE FUNCTION {schema}.recover(names text[], OUT stalled integer, OUT woken json, OUT wake_all boolean,
  OUT published boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  leases {schema}.ended_lease[];
  given {schema}.limit_given[];
  ends {schema}.lease_end[];
  ats tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j WHERE j.state = 'active' AND j.lease_until <= now
    ORDER BY j.lease_until LIMIT 500 FOR UPDATE SKIP LOCKED);
BEGIN
  stalled := cardinality(ats);
  wake_all := false;
  published := false;
  IF stalled > 0 AND (EXISTS (SELECT FROM {schema}.rules)
    OR EXISTS (SELECT FROM {schema}.jobs j WHERE j.ctid = ANY (ats) AND j.limits IS NOT NULL)) THEN
    SELECT array_agg((j.token, j.queue, j.type, j.grp, j.keys, j.started_at, j.limits, 'failed',
      '{StalledJobError,SLUICE_STALLED}', NULL, false, NULL)::{schema}.ended_lease ORDER BY j.lease_until, j.seq)
    INTO leases FROM {schema}.jobs j WHERE j.ctid = ANY (ats);
    names := names || {schema}.limits_to_release(NULL, leases);
  END IF;
  IF cardinality(names) > 0 THEN
    PERFORM {schema}.lock_limits(names);
  END IF;
  now := {schema}.moment();
  IF stalled = 0 THEN
    RETURN;
  END IF;
  IF leases IS NOT NULL THEN
    given := {schema}.release_limits(NULL, leases, now);
  END IF;
  published := {schema}.events_wanted(now, true);
  SELECT array_agg((j.ctid, CASE WHEN j.cancel_requested THEN 'cancelled' WHEN j.attempt >= j.max_attempts THEN 'dead' ELSE 'retry' END,
    NULL, NULL, json_build_object('name', 'StalledJobError', 'code', 'SLUICE_STALLED',
      'message', 'the lease of worker ' || coalesce(j.worker, '') || ' ran out before it was done'))::{schema}.lease_end
    ORDER BY j.lease_until, j.seq)
  INTO ends FROM {schema}.jobs j WHERE j.ctid = ANY (ats);
  IF published THEN
    INSERT INTO {schema}.events (at, event)
    SELECT now, e.event FROM unnest(ends) WITH ORDINALITY AS l (at, state, in_ms, held, error, no)
    JOIN {schema}.jobs j ON j.ctid = l.at CROSS JOIN LATERAL (VALUES
      (1, json_build_object('event', 'stalled', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
        'worker', coalesce(j.worker, ''))),
      (2, CASE l.state WHEN 'cancelled' THEN json_build_object('event', 'cancelled', 'queue', j.queue, 'id', j.id, 'type', j.type)
        WHEN 'dead' THEN json_build_object('event', 'dead', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
          'error', l.error::json) END)) AS e (no, event)
    WHERE e.event IS NOT NULL ORDER BY l.no, e.no;
  END IF;
  woken := (SELECT r.woken FROM {schema}.release_leases(ends, true, now) r);
  IF given IS NOT NULL THEN
    wake_all := {schema}.wakes_waiters(given, now);
  END IF;
END
$$;

-- Jobs that have not started and whose deadline has passed are dead: a thousand at the most.
--
-- ids: only these; NULL: any.
-- ended: how many. gone, published: as end_unstarted.
CREATE OR REPLACE FUNCTION {schema}.end_late(now float8, ids text[] DEFAULT NULL, OUT ended integer, OUT gone {schema}.lane_job[],
  OUT published boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  why CONSTANT json := json_build_object('name', 'JobTimeoutError', 'code', 'SLUICE_TIMEOUT',
    'message', 'the deadline passed before the job could start');
  late tid[];
  -- As in promote_due.
  early tid[];
BEGIN
  SELECT coalesce(array_agg(d.at ORDER BY d.seq) FILTER (WHERE d.passed), '{}'), array_agg(d.at) FILTER (WHERE NOT d.passed)
  INTO late, early FROM (
    SELECT j.ctid AS at, j.seq, {schema}.has_passed(j.deadline_wall) AS passed FROM {schema}.jobs j
    WHERE j.deadline IS NOT NULL AND j.state IN ('waiting', 'scheduled') AND j.deadline <= now
      AND (ids IS NULL OR j.id = ANY (ids))
    ORDER BY j.deadline LIMIT 1000 FOR UPDATE SKIP LOCKED) d;
  IF early IS NOT NULL THEN
    UPDATE {schema}.jobs j SET deadline = j.deadline_wall + {schema}.skew() WHERE j.ctid = ANY (early);
  END IF;
  ended := cardinality(late);
  gone := '{}';
  published := false;
  IF ended > 0 THEN
    SELECT e.gone, e.published INTO gone, published FROM {schema}.end_unstarted(late, array_fill(why, ARRAY[ended]), now) AS e;
  END IF;
END
$$;

-- Jobs that have not started are dead, each with its error. That is no attempt. Their rows are locked.
--
-- gone: those of them that waited, for their lanes. published: events were written, in the order of the jobs.
CREATE OR REPLACE FUNCTION {schema}.end_unstarted(ats tid[], errors json[], now float8, OUT gone {schema}.lane_job[], OUT published boolean)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  gone := ARRAY(SELECT {schema}.lane_job_of(j)
    FROM {schema}.jobs j WHERE j.ctid = ANY (ats) AND j.state = 'waiting');
  published := {schema}.events_wanted(now, true);
  WITH dead AS (
    UPDATE {schema}.jobs j SET state = 'dead', finished_at = now, error = e.error::text,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('dead'))
    FROM unnest(ats, errors) WITH ORDINALITY AS e (at, error, no)
    WHERE j.ctid = e.at RETURNING e.no, e.error, j.queue, j.id, j.type, j.attempt
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'dead', 'queue', d.queue, 'id', d.id, 'type', d.type, 'attempt', d.attempt,
    'error', d.error)
  FROM dead d WHERE published ORDER BY d.no;
END
$$;

-- Deletes what has been kept long enough, 500 of each kind at the most: jobs, expired permits, idempotency keys, limits of claims, what is
-- known of steps, events and their listeners, workers that are not live.
-- Rows that are locked are left for the next time. deleted: how many. more: there may be more.
CREATE OR REPLACE FUNCTION {schema}.prune_rows(now float8, OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seqs bigint[];
  ids text[];
  count integer;
BEGIN
  SELECT array_agg(k.seq), array_agg(k.id), count(*) INTO seqs, ids, deleted FROM (
    SELECT j.seq, j.id FROM {schema}.jobs j WHERE j.delete_at IS NOT NULL AND j.delete_at <= now
    ORDER BY j.delete_at LIMIT 500 FOR UPDATE SKIP LOCKED) k;
  IF deleted > 0 THEN
    PERFORM {schema}.delete_jobs(seqs, ids);
  END IF;
  more := deleted = 500;

  -- Permits that have expired. They do not count any more.
  DELETE FROM {schema}.slots h WHERE h.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.slots o WHERE o.until <= now ORDER BY o.until LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;

  DELETE FROM {schema}.keys k WHERE k.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.keys o WHERE o.expires_at <= now ORDER BY o.expires_at LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;

  -- They are written down again once a day, as long as there are claims.
  DELETE FROM {schema}.claims c WHERE c.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.claims o WHERE o.at <= now - 2592000000 ORDER BY o.at LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;

  count := {schema}.prune_steps(500);
  deleted := deleted + count;
  more := more OR count = 500;

  DELETE FROM {schema}.listeners l WHERE l.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.listeners o WHERE o.until <= now LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;

  DELETE FROM {schema}.workers w WHERE w.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.workers o WHERE o.until <= now LIMIT 500 FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;

  -- Events are for present listeners: they are kept for a minute, ten thousand of them. They are numbered as they happen.
  DELETE FROM {schema}.events e WHERE e.ctid = ANY (ARRAY(
    SELECT f.at FROM (
      SELECT o.ctid AS at, o.seq, o.at AS told_at FROM {schema}.events o ORDER BY o.seq LIMIT 500 FOR UPDATE SKIP LOCKED) f
    WHERE f.told_at <= now - 60000 OR f.seq <= (SELECT max(n.seq) FROM {schema}.events n) - 10000));
  GET DIAGNOSTICS count = ROW_COUNT;
  deleted := deleted + count;
  more := more OR count = 500;
END
$$;

-- Opens lanes for arrivals of queues without claims, so that arrivals do not pile up: where there are more than a thousand, as many as a
-- claim would, in ten queues at the most.
--
-- now: the time. names: of limits that weigh: they are locked. more: there is more. wake_all: all waiting workers are to be woken.
CREATE OR REPLACE FUNCTION {schema}.sweep_arrivals(now float8, names text[], OUT more boolean, OUT wake_all boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  few CONSTANT integer := 1000;
  arrived text;
  folded record;
BEGIN
  more := false;
  wake_all := false;
  FOR arrived IN
    WITH RECURSIVE queues AS (
      (SELECT a.queue FROM {schema}.arrivals a ORDER BY a.queue LIMIT 1)
      UNION ALL
      SELECT n.queue FROM queues q CROSS JOIN LATERAL (SELECT a.queue FROM {schema}.arrivals a WHERE a.queue > q.queue
        ORDER BY a.queue LIMIT 1) n
    )
    SELECT q.queue FROM queues q
    WHERE EXISTS (SELECT FROM {schema}.arrivals a WHERE a.queue = q.queue OFFSET few) LIMIT 10
  LOOP
    folded := {schema}.fold_arrivals(arrived, '{}', names, few, false, now);
    more := more OR coalesce(folded.outside, false);
    wake_all := wake_all OR folded.wake_all;
  END LOOP;
END
$$;

-- Deletes open gates where no lane stands any more, a thousand at most (claims delete those whose limits they have locked), and lanes that
-- were not used for an hour, 500 at most: so long a lane keeps its turn after the last job has left it. Lanes of queues where a claim opens
-- lanes at this moment are left for the next time. Answers how many lanes.
CREATE OR REPLACE FUNCTION {schema}.sweep_lanes(now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept_ms CONSTANT float8 := 3600000;
  empty record;
  old bigint[];
  queues text[];
  deleted integer;
BEGIN
  FOR empty IN
    SELECT g.name, array_agg(g.grp) AS grps FROM (
      SELECT o.* FROM {schema}.gates o
      WHERE o.until <= now AND NOT EXISTS (SELECT FROM {schema}.lanes l
        WHERE {schema}.stands_at(l, o.name, o.grp, o.queue, o.type) OFFSET 0)
      LIMIT 1000) g
    GROUP BY g.name
  LOOP
    CONTINUE WHEN NOT pg_try_advisory_xact_lock({schema}.lock_key('limit', empty.name));
    PERFORM {schema}.delete_gates(ARRAY(SELECT o.ctid FROM {schema}.gates o
      WHERE o.name = empty.name AND o.grp = ANY (empty.grps) AND o.until <= now FOR UPDATE SKIP LOCKED));
  END LOOP;
  SELECT array_agg(l.id), array_agg(DISTINCT l.queue) INTO old, queues FROM (
    SELECT a.id, a.queue FROM {schema}.lanes a WHERE NOT a.ready AND a.used_at <= now - kept_ms ORDER BY a.used_at LIMIT 500
  ) l;
  IF old IS NULL THEN
    RETURN 0;
  END IF;
  SELECT array_agg(q.queue) INTO queues FROM unnest(queues) AS q (queue)
    WHERE pg_try_advisory_xact_lock({schema}.lock_key('fold', q.queue));
  DELETE FROM {schema}.lanes l WHERE l.ctid = ANY (ARRAY(
    SELECT a.ctid FROM {schema}.lanes a WHERE a.id = ANY (old) AND a.queue = ANY (queues) AND NOT a.ready FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
