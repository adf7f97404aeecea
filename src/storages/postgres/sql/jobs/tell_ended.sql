-- Tells how leases ended, in the order of their outcomes. ats, ns: as lock_leases answers; the jobs are active still.
CREATE OR REPLACE FUNCTION {schema}.tell_ended(outcomes json, ats tid[], ns integer[], now float8) RETURNS void
LANGUAGE sql VOLATILE SET enable_hashjoin = on AS $$
  INSERT INTO {schema}.events (at, event)
  SELECT now, CASE
    WHEN o.to IS NULL THEN
      json_build_object('event', 'completed', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt)
    WHEN o.to = 'dead' THEN
      json_build_object('event', 'dead', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
        'error', o.error::json)
    WHEN o.to = 'cancelled' OR j.cancel_requested THEN
      json_build_object('event', 'cancelled', 'queue', j.queue, 'id', j.id, 'type', j.type)
    ELSE
      json_build_object('event', 'retried', 'queue', j.queue, 'id', j.id, 'type', j.type, 'attempt', j.attempt,
        'inMs', o.in_ms, 'error', o.error::json)
    END
  FROM unnest(ats, ns) AS l (at, n)
  JOIN json_to_recordset(outcomes) AS o (n integer, "to" text, in_ms float8, error text) ON o.n = l.n
  JOIN {schema}.jobs j ON j.ctid = l.at
  ORDER BY o.n
$$;
