-- Deletes jobs that have ended well and are not to be kept, with all that is kept of them; others among them are left alone. The
-- rows are taken in the order of their ids.
--
-- ids, leased: as complete_plainly. Answers with the tokens of those that were deleted.
CREATE OR REPLACE FUNCTION {schema}.delete_completed(ids text[], leased bigint[]) RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  done bigint[];
  failed bigint[];
  logged bigint[];
BEGIN
  WITH gone AS (
    DELETE FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND leased[width_bucket(j.token, leased)] = j.token AND ids[width_bucket(j.token, leased)] = j.id
      AND j.lease_until IS NOT NULL AND j.keep_for = 0
    RETURNING j.token, CASE WHEN j.attempt > 1 OR j.error IS NOT NULL THEN j.seq END AS failed,
      CASE WHEN j.logged THEN j.seq END AS logged
  )
  SELECT coalesce(array_agg(g.token), '{}'), array_agg(g.failed) FILTER (WHERE g.failed IS NOT NULL),
    array_agg(g.logged) FILTER (WHERE g.logged IS NOT NULL) INTO done, failed, logged FROM gone g;
  IF failed IS NOT NULL THEN
    DELETE FROM {schema}.attempts a WHERE a.job = ANY (failed);
  END IF;
  IF logged IS NOT NULL THEN
    DELETE FROM {schema}.log l WHERE l.job = ANY (logged);
  END IF;
  RETURN done;
END
$$;
