-- Confirms when the starts of these tokens were called: a token of another name, or from before the name was cleared, changes
-- nothing.
--
-- said: {limits, grants, called}, lists of one length: the limit and the number of each token, and when it was called.
CREATE OR REPLACE FUNCTION {schema}.rate_confirm_{version}(limit_name text, said json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off AS $$
DECLARE
  kept {schema}.limits;
  q record;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  kept := {schema}.find_limit(limit_name, '');
  SELECT array_agg(u.number) AS grants, array_agg(u.called) AS called INTO q
    FROM json_to_record(said) AS r (limits bigint[], grants bigint[], called float8[]),
      unnest(r.limits, r.grants, r.called) AS u (id, number, called)
    WHERE u.id = kept.id;
  IF q.grants IS NOT NULL THEN
    PERFORM {schema}.confirm_starts(q.grants, q.called, kept.id);
  END IF;
  RETURN '{}';
END
$$;
