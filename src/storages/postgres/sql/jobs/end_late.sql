-- Jobs that have not started and whose deadline has passed are dead: a thousand at the most. That is no attempt.
--
-- ids: only these; NULL: any.
-- ended: how many. gone: those of them that waited, as the limits want to hear of it. told: events were written.
CREATE OR REPLACE FUNCTION {schema}.end_late(now float8, ids text[] DEFAULT NULL, OUT ended integer, OUT gone {schema}.gone_job[],
  OUT told boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  why CONSTANT json := json_build_object('name', 'JobTimeoutError', 'code', 'SLUICE_TIMEOUT',
    'message', 'the deadline passed before the job could start');
  late tid[];
  -- As in promote_due.
  early tid[];
BEGIN
  SELECT coalesce(array_agg(d.at) FILTER (WHERE d.passed), '{}'), array_agg(d.at) FILTER (WHERE NOT d.passed) INTO late, early FROM (
    SELECT j.ctid AS at, {schema}.has_passed(j.deadline_wall) AS passed FROM {schema}.jobs j
    WHERE j.deadline IS NOT NULL AND j.state IN ('waiting', 'scheduled') AND j.deadline <= now
      AND (ids IS NULL OR j.id = ANY (ids))
    ORDER BY j.deadline LIMIT 1000 FOR UPDATE SKIP LOCKED) d;
  IF early IS NOT NULL THEN
    UPDATE {schema}.jobs j SET deadline = j.deadline_wall + {schema}.skew() WHERE j.ctid = ANY (early);
  END IF;
  ended := cardinality(late);
  gone := '{}';
  told := false;
  IF ended = 0 THEN
    RETURN;
  END IF;
  gone := ARRAY(SELECT (j.queue, j.type, j.priority, j.grp)::{schema}.gone_job
    FROM {schema}.jobs j WHERE j.ctid = ANY (late) AND j.state = 'waiting');
  told := {schema}.events_wanted(now) OR {schema}.ends_wanted(now);
  WITH dead AS (
    UPDATE {schema}.jobs j SET state = 'dead', finished_at = now, error = why::text,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('dead'))
    WHERE j.ctid = ANY (late) RETURNING j.seq, j.queue, j.id, j.type, j.attempt
  )
  INSERT INTO {schema}.events (at, event)
  SELECT now, json_build_object('event', 'dead', 'queue', d.queue, 'id', d.id, 'type', d.type, 'attempt', d.attempt,
    'error', why)
  FROM dead d WHERE told ORDER BY d.seq;
END
$$;
