-- The limit itself has changed: no lane is blocked by it any more.
CREATE OR REPLACE FUNCTION {schema}.unblock_all(limit_name text) RETURNS void
LANGUAGE sql VOLATILE AS $$
  UPDATE {schema}.lanes SET blocked_until = NULL WHERE blocked_by = limit_name AND blocked_until IS NOT NULL
$$;
