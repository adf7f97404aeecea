-- Jobs of a queue in one state, in the order of adding, so many at the most: their numbers and ids. What is NULL does not matter.
--
-- since, until: added at or after, and before. ended_before: ended at or before. unasked: only those that nobody has asked to
-- stop. newest: the newest first. after: only those after this number in the order.
--
-- Instants of two processes may lie so far apart that the order of adding does not tell: a second is allowed for.
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
