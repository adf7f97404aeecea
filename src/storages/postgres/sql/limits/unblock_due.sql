-- Lanes of these types whose instant has come are ready, a thousand at a time. Those whose rows other claims have locked are left to them.
CREATE OR REPLACE FUNCTION {schema}.unblock_due(queue_name text, types text[], at float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  due bigint[] := ARRAY(
    SELECT r.id FROM unnest(types) AS t (type) CROSS JOIN LATERAL (
      SELECT l.id FROM {schema}.lanes l
      WHERE l.queue = queue_name AND l.type = t.type AND l.ready AND l.blocked_until IS NOT NULL AND l.blocked_until <= at
      ORDER BY l.blocked_until LIMIT 1000 FOR UPDATE SKIP LOCKED) r
    LIMIT 1000);
BEGIN
  IF due <> '{}' THEN
    UPDATE {schema}.lanes l SET blocked_until = NULL WHERE l.id = ANY (due) AND l.blocked_until <= at;
  END IF;
END
$$;
