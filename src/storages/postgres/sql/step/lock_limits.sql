-- What is counted under these names is ours until the end of the transaction, for all of their groups. Taken last, all at once
-- and sorted: whoever has them waits for nobody. Answers whether it had to wait.
CREATE OR REPLACE FUNCTION {schema}.lock_limits(names text[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  -- One after the other, as they come out of the subquery. Its answer must depend on the lock, or the planner leaves that out.
  RETURN (SELECT bool_or(CASE WHEN pg_try_advisory_xact_lock(s.key) THEN false
      ELSE pg_advisory_xact_lock(s.key) IS NOT NULL END)
    FROM (SELECT DISTINCT {schema}.lock_key('limit', name) AS key FROM unnest(names) AS name ORDER BY key OFFSET 0) AS s);
END
$$;
