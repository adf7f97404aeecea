-- The way of almost all jobs: they ended well, and nobody wants to hear of it. One statement, as a rule, and no lock before it: the
-- rows are taken in the order of their ids, as by everybody who waits for jobs. What they hold of limits is given back later.
--
-- Each is looked up by its id, whatever the planner believes of the table: there is no join that it could turn round, and no
-- state is named, for which there is another index. Only the active have a lease. Which token belongs to an id is found by halves,
-- for the tokens grow: a look through all of them, for each, would cost more than anything else.
--
-- ids, leased: the jobs and their tokens, in the same order, all of them different, and the tokens growing (those that are not
-- are left alone). results: by id; NULL: none has one. keeps: the first of them is kept. Answers with the tokens of those that
-- were done; the leases of the others are lost.
CREATE OR REPLACE FUNCTION {schema}.complete_plainly(ids text[], leased bigint[], results jsonb, keeps boolean, now float8)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  done bigint[];
  more bigint[];
  gone text[];
  seqs bigint[];
BEGIN
  IF NOT keeps THEN
    done := {schema}.delete_completed(ids, leased);
    IF cardinality(done) = cardinality(ids) THEN
      RETURN done;
    END IF;
    -- There are others among them after all. They are out of order, so nobody waits for them: rather all of it is begun again.
    PERFORM FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND leased[width_bucket(j.token, leased)] = j.token AND ids[width_bucket(j.token, leased)] = j.id
      AND j.lease_until IS NOT NULL FOR UPDATE NOWAIT;
  END IF;
  WITH completed AS (
    UPDATE {schema}.jobs j SET state = 'completed', finished_at = now, lease_until = NULL, result = results ->> j.id,
      delete_at = now + coalesce(j.keep_for, {schema}.kept_ms('completed'))
    WHERE j.id = ANY (ids) AND leased[width_bucket(j.token, leased)] = j.token AND ids[width_bucket(j.token, leased)] = j.id
      AND j.lease_until IS NOT NULL
    RETURNING j.token, CASE WHEN j.keep_for = 0 THEN j.id END AS gone, CASE WHEN j.keep_for = 0 THEN j.seq END AS seq
  )
  SELECT coalesce(array_agg(c.token), '{}'), array_agg(c.gone) FILTER (WHERE c.gone IS NOT NULL),
    array_agg(c.seq) FILTER (WHERE c.seq IS NOT NULL) INTO more, gone, seqs FROM completed c;
  IF gone IS NOT NULL THEN
    PERFORM {schema}.delete_jobs(seqs, gone);
  END IF;
  RETURN done || more;
END
$$;
