-- One claim at a time walks over the lanes of a queue, and no other takes jobs of it meanwhile: it would take them from under the
-- walk. Those that need no lanes share the lock. Taken before any limit. Answers whether it may have had to wait.
CREATE OR REPLACE FUNCTION {schema}.lock_queue(queue text, shared boolean) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  key bigint := {schema}.lock_key('queue', queue);
BEGIN
  IF NOT shared THEN
    PERFORM pg_advisory_xact_lock(key);
  ELSIF pg_try_advisory_xact_lock_shared(key) THEN
    RETURN false;
  ELSE
    PERFORM pg_advisory_xact_lock_shared(key);
  END IF;
  RETURN true;
END
$$;
