-- Lanes of these types whose instant has come are ready again, a thousand at the most in one step.
CREATE OR REPLACE FUNCTION {schema}.unblock_ripe(queue_name text, types text[], at float8) RETURNS void
LANGUAGE sql VOLATILE AS $$
  WITH ripe AS (
    SELECT r.id FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT l.id FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = t.type AND l.ready AND l.blocked_until IS NOT NULL AND l.blocked_until <= at
      ORDER BY l.blocked_until LIMIT 1000) r
    LIMIT 1000
  )
  UPDATE {schema}.lanes l SET blocked_until = NULL FROM ripe WHERE l.id = ripe.id
$$;
