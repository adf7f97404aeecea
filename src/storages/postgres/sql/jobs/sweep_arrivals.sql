-- Opens lanes for what has arrived in queues that nobody claims from, so that not ever more of it is kept: where there are more than a
-- thousand, as many as a claim would, in ten queues at the most. Those of queues where somebody claims at this moment are left
-- to him. Answers whether there is more.
--
-- now: the time. names: of limits that weigh: they are locked.
CREATE OR REPLACE FUNCTION {schema}.sweep_arrivals(now float8, names text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  few CONSTANT integer := 1000;
  arrived text;
  more boolean := false;
BEGIN
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
    IF pg_try_advisory_xact_lock({schema}.lock_key('queue', arrived)) THEN
      more := {schema}.let_in(arrived, '{}', {schema}.waiting_types(arrived), names, few, now) OR more;
    END IF;
  END LOOP;
  RETURN more;
END
$$;
