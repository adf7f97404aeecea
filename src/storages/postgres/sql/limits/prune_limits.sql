-- Deletes starts that no window can see, and names that nobody uses, a step of them. Names that somebody works under just now
-- are left for another time: this waits for nobody. It is the last thing that a step does, for it may write down the time.
CREATE OR REPLACE FUNCTION {schema}.prune_limits(now float8) RETURNS {schema}.pruned
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ripe record;
  looked integer := 0;
  deleted integer := 0;
BEGIN
  FOR ripe IN SELECT l.id, l.name FROM {schema}.limits AS l WHERE l.prune_at <= now ORDER BY l.prune_at LIMIT 100 LOOP
    IF deleted >= 500 THEN
      RETURN (deleted, true)::{schema}.pruned;
    END IF;
    CONTINUE WHEN NOT pg_try_advisory_xact_lock({schema}.lock_key('limit', ripe.name));
    deleted := deleted + {schema}.prune_limit(ripe.id, now);
    looked := looked + 1;
  END LOOP;
  RETURN (deleted, looked = 100)::{schema}.pruned;
END
$$;
