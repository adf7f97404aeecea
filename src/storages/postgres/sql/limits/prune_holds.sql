-- Deletes permits that have run out, a step of them. Nobody counts them any more.
CREATE OR REPLACE FUNCTION {schema}.prune_holds(now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  deleted integer;
BEGIN
  DELETE FROM {schema}.holds AS h USING (
    SELECT old.limit_id, old.token FROM {schema}.holds AS old WHERE old.until <= now
      ORDER BY old.until LIMIT 500 FOR UPDATE SKIP LOCKED
  ) AS gone WHERE h.limit_id = gone.limit_id AND h.token = gone.token;
  GET DIAGNOSTICS deleted = ROW_COUNT;
  RETURN deleted;
END
$$;
