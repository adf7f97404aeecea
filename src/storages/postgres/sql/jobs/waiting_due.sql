-- Scheduled jobs of a queue, of this priority or a higher one, that have come due, and that nobody has put in their place yet. Up to
-- 10,000.
--
-- grp: as a lane says it. at: now.
CREATE OR REPLACE FUNCTION {schema}.waiting_due(of_queue text, least_priority float8, at float8)
RETURNS TABLE (type text, priority float8, grp text, due_at float8, seq bigint)
LANGUAGE sql STABLE AS $$
  SELECT d.type, d.priority, coalesce(':' || d.grp, ''), d.due_at, d.seq FROM (
    SELECT j.type, j.priority, j.grp, coalesce(j.first_due_at, j.due_at) AS due_at, j.seq FROM {schema}.jobs j
    WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall)
    ORDER BY j.due_at LIMIT 10000
  ) d WHERE d.priority >= least_priority
$$;
