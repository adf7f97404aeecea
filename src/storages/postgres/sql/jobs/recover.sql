-- Jobs whose lease has run out go back into the queue, 500 at the most, unless that was their last attempt or they are not wanted.
-- They take their old place: what was not their fault is not to cost them an hour of backlog. The claim that started them is
-- kept with its sign changed: it is not the end that their worker had in mind, and may be undone (unspend.sql).
--
-- names: limits to be locked beside those of the jobs; NULL: nobody else can be at any limit. stalled: how many. woken, everybody:
-- as all steps tell it. told: events were written.
CREATE OR REPLACE FUNCTION {schema}.recover(names text[], OUT stalled integer, OUT woken json, OUT everybody boolean,
  OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
  leases {schema}.ended_lease[];
  given {schema}.limit_given[];
  ats tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j WHERE j.state = 'active' AND j.lease_until <= now
    ORDER BY j.lease_until LIMIT 500 FOR UPDATE SKIP LOCKED);
BEGIN
  stalled := cardinality(ats);
  everybody := false;
  told := false;
  IF stalled > 0 AND (EXISTS (SELECT FROM {schema}.rules)
    OR EXISTS (SELECT FROM {schema}.jobs j WHERE j.ctid = ANY (ats) AND j.limits IS NOT NULL)) THEN
    SELECT array_agg((j.token, j.queue, j.type, j.grp, j.started_at, j.limits, 'failed',
      '{StalledJobError,SLUICE_STALLED}', NULL, false, NULL)::{schema}.ended_lease ORDER BY j.lease_until, j.seq)
    INTO leases FROM {schema}.jobs j WHERE j.ctid = ANY (ats);
    IF names IS NOT NULL THEN
      names := names || {schema}.limits_of(leases);
    END IF;
  END IF;
  IF cardinality(names) > 0 THEN
    PERFORM {schema}.lock_limits(names);
  END IF;
  now := {schema}.moment();
  IF stalled = 0 THEN
    RETURN;
  END IF;
  IF leases IS NOT NULL THEN
    given := {schema}.give_back(leases, now);
  END IF;
  told := {schema}.events_wanted(now) OR {schema}.ends_wanted(now);
  WITH lost AS MATERIALIZED (
    SELECT j.ctid AS at, j.seq, j.id, j.queue, j.type, j.attempt, j.started_at, j.worker, e.error, CASE
      WHEN j.cancel_requested THEN 'cancelled' WHEN j.attempt >= j.max_attempts THEN 'dead'
      WHEN j.due_at <= now THEN 'waiting' ELSE 'scheduled' END AS state,
      row_number() OVER (ORDER BY j.lease_until, j.seq) AS no
    FROM {schema}.jobs j CROSS JOIN LATERAL (SELECT json_build_object('name', 'StalledJobError', 'code', 'SLUICE_STALLED',
      'message', 'the lease of worker ' || coalesce(j.worker, '') || ' ran out before it was done') AS error) e
    WHERE j.ctid = ANY (ats)
  ), failed AS (
    INSERT INTO {schema}.attempts (job, attempt, started_at, ended_at, worker, error)
    SELECT l.seq, l.attempt, coalesce(l.started_at, now), now, coalesce(l.worker, ''), l.error FROM lost l ORDER BY l.no
  ), trimmed AS (
    DELETE FROM {schema}.attempts a USING lost l WHERE a.job = l.seq AND a.seq <=
      (SELECT b.seq FROM {schema}.attempts b WHERE b.job = l.seq ORDER BY b.seq DESC OFFSET 99 LIMIT 1)
  ), recovered AS (
    UPDATE {schema}.jobs j SET state = l.state, lease_until = NULL, claim = -j.claim, error = l.error,
      worker = CASE WHEN l.state IN ('dead', 'cancelled') THEN j.worker END,
      finished_at = CASE WHEN l.state IN ('dead', 'cancelled') THEN now END,
      delete_at = CASE WHEN l.state IN ('dead', 'cancelled') THEN now + coalesce(j.keep_for, {schema}.kept_ms(l.state)) END
    FROM lost l WHERE j.ctid = l.at
    RETURNING j.seq, j.queue, j.type, j.priority, j.grp, j.state, j.due_at
  ), told_of AS (
    INSERT INTO {schema}.events (at, event)
    SELECT now, e.event FROM lost l CROSS JOIN LATERAL (VALUES
      (1, json_build_object('event', 'stalled', 'queue', l.queue, 'id', l.id, 'type', l.type, 'attempt', l.attempt,
        'worker', coalesce(l.worker, ''))),
      (2, CASE l.state WHEN 'cancelled' THEN json_build_object('event', 'cancelled', 'queue', l.queue, 'id', l.id, 'type', l.type)
        WHEN 'dead' THEN json_build_object('event', 'dead', 'queue', l.queue, 'id', l.id, 'type', l.type, 'attempt', l.attempt,
          'error', l.error) END)) AS e (no, event)
    WHERE told AND e.event IS NOT NULL ORDER BY l.no, e.no
  ), arrived AS (
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT r.queue, r.type, r.priority, r.grp, min(r.due_at), (array_agg(r.seq ORDER BY r.due_at, r.seq))[1] FROM recovered r
    WHERE r.state = 'waiting' AND r.grp IS NOT NULL GROUP BY r.queue, r.type, r.priority, r.grp ORDER BY 5, 6
  ), kinds AS (
    SELECT r.queue, r.type, r.priority, r.grp, r.state, min(r.due_at) AS due_at
    FROM recovered r WHERE r.state IN ('waiting', 'scheduled') GROUP BY r.queue, r.type, r.priority, r.grp, r.state
  ), looked AS (
    SELECT k.queue, CASE WHEN k.state = 'waiting' THEN {schema}.lane_news(k.queue, k.type, k.priority, k.grp, now)
      ELSE {schema}.is_first_due(k.queue, k.type, k.due_at) END AS news
    FROM kinds k
  )
  SELECT json_agg(json_build_array(w.queue, w.news)) INTO woken FROM (
    SELECT l.queue, bool_or(l.news) AS news FROM looked l WHERE l.news IS NOT NULL GROUP BY l.queue) w;
  IF given IS NOT NULL THEN
    everybody := {schema}.is_news(given, now);
  END IF;
END
$$;
