-- Deletes jobs that have ended well and are not to be kept, with all that is kept of them; others among them are left alone. The
-- rows are taken in the order of their ids.
--
-- ids, leased: as complete_plainly. Answers with the tokens of those that were deleted.
CREATE OR REPLACE FUNCTION {schema}.delete_completed(ids text[], leased bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  done bigint[];
  seqs bigint[];
  failed boolean;
BEGIN
  WITH gone AS (
    DELETE FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND ids[array_position(leased, j.token)] = j.id AND j.lease_until IS NOT NULL AND j.keep_for = 0
    RETURNING j.token, j.seq, j.attempt > 1 OR j.error IS NOT NULL AS failed
  )
  SELECT coalesce(array_agg(g.token), '{}'), array_agg(g.seq), bool_or(g.failed) INTO done, seqs, failed FROM gone g;
  IF failed THEN
    DELETE FROM {schema}.attempts a WHERE a.job = ANY (seqs);
  END IF;
  IF seqs IS NOT NULL THEN
    DELETE FROM {schema}.log l WHERE l.job = ANY (seqs);
  END IF;
  RETURN done;
END
$$;
