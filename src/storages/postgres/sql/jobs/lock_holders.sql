-- The jobs that are to give way to these are ours until the end of the transaction: all at once and in the order of their ids, as
-- everybody does who waits for jobs. Those that run do not give way, and are left alone: a worker is not to wait for a transaction
-- of somebody else's. jobs: a list as jobs/add.ts writes it, whose keys are locked.
CREATE OR REPLACE FUNCTION {schema}.lock_holders(jobs json, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  holders text[] := ARRAY(SELECT k.job
    FROM json_to_recordset(lock_holders.jobs) AS n (queue text, key text, on_duplicate text)
    JOIN {schema}.keys k ON k.queue = n.queue AND k.key = n.key
    WHERE n.on_duplicate = 'replace' AND k.expires_at > now);
BEGIN
  IF cardinality(holders) > 0 THEN
    PERFORM FROM {schema}.jobs j
    WHERE j.id = ANY (holders) AND j.state COLLATE "POSIX" = ANY ('{waiting,scheduled,awaiting}')
    ORDER BY j.id FOR UPDATE;
  END IF;
END
$$;
