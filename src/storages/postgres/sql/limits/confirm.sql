-- Says when calls were made that grants were given for (storage/grants.ts). It causes no wake-up: waiting claims know when to look again.
--
-- said: {grants, called}, two lists of one length.
CREATE OR REPLACE FUNCTION {schema}.confirm_{version}(said json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off AS $$
DECLARE
  q record;
BEGIN
  PERFORM {schema}.begin_step();
  SELECT r.grants, r.called INTO q FROM json_to_record(said) AS r (grants bigint[], called float8[]);
  PERFORM {schema}.lock_limits({schema}.limits_of_grants(q.grants));
  PERFORM {schema}.confirm_starts(q.grants, q.called);
  RETURN '{}';
END
$$;
