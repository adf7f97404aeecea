-- How many jobs of a queue wait, by type and group, as a lane says it. Those that have come due are among them.
CREATE OR REPLACE FUNCTION {schema}.waiting_groups(of_queue text, at float8)
RETURNS TABLE (type text, grp text, waiting bigint)
LANGUAGE sql STABLE AS $$
  SELECT w.type, w.grp, sum(w.n)::bigint FROM (
    SELECT j.type, '' AS grp, count(*) AS n FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'waiting' AND j.grp IS NULL GROUP BY j.type
    UNION ALL
    SELECT j.type, ':' || j.grp, count(*) FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'waiting' AND j.grp IS NOT NULL GROUP BY j.type, j.grp
    UNION ALL
    SELECT j.type, coalesce(':' || j.grp, ''), count(*) FROM {schema}.jobs j
      WHERE j.queue = of_queue AND j.state = 'scheduled' AND j.due_at <= at AND {schema}.has_passed(j.due_wall) GROUP BY j.type, j.grp
  ) w GROUP BY w.type, w.grp
$$;
