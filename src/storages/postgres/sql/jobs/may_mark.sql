-- May this step set marks in the queue? One at a time may, and nobody waits for it.
CREATE OR REPLACE FUNCTION {schema}.may_mark(queue text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pg_try_advisory_xact_lock({schema}.lock_key('mark', queue))
$$;
