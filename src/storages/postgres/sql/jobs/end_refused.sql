-- Jobs that can never fit under a limit are dead, for the limit was made smaller after they had been added. That is no attempt.
-- Answers whether there is news for everybody.
--
-- queue_name: of which queue. walked: what a claim came to. wanted: somebody wants to hear what happens.
CREATE OR REPLACE FUNCTION {schema}.end_refused(queue_name text, walked {schema}.walked, wanted boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept_ms CONSTANT float8 := 30 * 86400000::float8;
  gone {schema}.gone_job[];
BEGIN
  WITH refused AS (
    SELECT r.place, r.job, json_build_object('name', 'OptionsError', 'code', 'SLUICE_OPTIONS', 'message',
      format('the limit "%s" lets %s start at the most, and the job weighs %s', m.name, coalesce(m.max, m.concurrency),
        r.weight)) AS error
    FROM unnest(walked.refused, walked.refused_meters, walked.refused_weights) WITH ORDINALITY AS r (job, meter, weight, place)
      CROSS JOIN LATERAL (SELECT k.* FROM unnest(walked.meters[r.meter : r.meter]) AS k) m
  ), ended AS (
    UPDATE {schema}.jobs j SET state = 'dead', finished_at = walked.at, error = r.error::text,
      delete_at = walked.at + coalesce(j.keep_for, kept_ms)
    FROM refused r WHERE j.ctid = r.job
    RETURNING r.place, r.error, j.id, j.type, j.priority, j.grp, j.attempt
  ), said AS (
    INSERT INTO {schema}.events (at, event)
    SELECT walked.at, json_build_object('event', 'dead', 'queue', queue_name, 'id', e.id, 'type', e.type,
      'attempt', e.attempt, 'error', e.error)::text
    FROM ended e WHERE wanted ORDER BY e.place
  )
  SELECT array_agg((queue_name, e.type, e.priority, e.grp)::{schema}.gone_job) INTO gone FROM ended e;
  RETURN {schema}.left_lane(gone);
END
$$;
