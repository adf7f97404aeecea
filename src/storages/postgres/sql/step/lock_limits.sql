-- What is counted under these names is ours until the end of the transaction, for all of their groups. Taken last, all at once
-- and sorted: whoever has them waits for nobody.
CREATE OR REPLACE FUNCTION {schema}.lock_limits(names text[]) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  key bigint;
BEGIN
  FOR key IN SELECT DISTINCT {schema}.lock_key('limit', name) AS k FROM unnest(names) AS name ORDER BY k LOOP
    PERFORM pg_advisory_xact_lock(key);
  END LOOP;
END
$$;
