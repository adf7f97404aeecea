-- Scheduled jobs of the queue that have come due wait from now on: a thousand at the most. Whoever waits for them knows when they
-- come due. One that backed off takes its old place. Answers how many.
CREATE OR REPLACE FUNCTION {schema}.promote_due(queue text, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  due tid[];
  -- Those that somebody gave an instant for, which is still to come: the clock of the storage was set forward since.
  early tid[];
BEGIN
  SELECT coalesce(array_agg(d.at) FILTER (WHERE d.passed), '{}'), array_agg(d.at) FILTER (WHERE NOT d.passed) INTO due, early FROM (
    SELECT j.ctid AS at, {schema}.has_passed(j.due_wall) AS passed FROM {schema}.jobs j
    WHERE j.queue = promote_due.queue AND j.state = 'scheduled' AND j.due_at <= now
    ORDER BY j.due_at LIMIT 1000 FOR UPDATE SKIP LOCKED) d;
  IF early IS NOT NULL THEN
    UPDATE {schema}.jobs j SET due_at = j.due_wall + {schema}.skew() WHERE j.ctid = ANY (early);
  END IF;
  IF cardinality(due) > 0 THEN
    WITH promoted AS (
      UPDATE {schema}.jobs j SET state = 'waiting', due_at = coalesce(j.first_due_at, j.due_at), first_due_at = NULL,
        due_wall = NULL
      WHERE j.ctid = ANY (due)
      RETURNING j.type, j.priority, j.grp, j.due_at, j.seq
    )
    INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
    SELECT promote_due.queue, p.type, p.priority, p.grp, min(p.due_at), (array_agg(p.seq ORDER BY p.due_at, p.seq))[1]
    FROM promoted p WHERE p.grp IS NOT NULL GROUP BY p.type, p.priority, p.grp ORDER BY 5, 6;
  END IF;
  RETURN cardinality(due);
END
$$;
