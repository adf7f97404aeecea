-- Deletes what need not be known of steps any more, so many rows at the most. How many there were.
CREATE OR REPLACE FUNCTION {schema}.prune_steps(most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
DECLARE
  count integer;
BEGIN
  DELETE FROM {schema}.steps s WHERE s.ctid = ANY (ARRAY(
    SELECT o.ctid FROM {schema}.steps o WHERE o.until <= {schema}.wall() LIMIT most FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS count = ROW_COUNT;
  RETURN count;
END
$$;
