-- Will a job of this type be the first of the scheduled jobs of its queue to come due; where there are limits, which may keep
-- other types back, of its type? Those that should have come due a second ago do not count: either nobody is there to start
-- them, or they have gone, and to pass them all takes time (jobs/first_open.sql).
CREATE OR REPLACE FUNCTION {schema}.is_first_due(queue text, type text, due_at float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT NOT EXISTS (SELECT FROM {schema}.jobs j
      WHERE j.queue = is_first_due.queue AND j.state = 'scheduled' AND j.due_at > m.last - 1000
        AND j.due_at <= is_first_due.due_at)
    OR (EXISTS (SELECT FROM {schema}.rules) AND NOT EXISTS (SELECT FROM (
      SELECT j.type, j.due_at FROM {schema}.jobs j
      WHERE j.queue = is_first_due.queue AND j.state = 'scheduled' AND j.due_at > m.last - 1000 ORDER BY j.due_at LIMIT 64) coming
      WHERE coming.type = is_first_due.type AND coming.due_at <= is_first_due.due_at))
  FROM {schema}.meta m
$$;
