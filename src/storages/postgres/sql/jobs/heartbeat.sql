-- Keeps leases for lease_ms from now. One that has run out is lost for good, even if nobody has noticed yet.
--
-- leases: [{n, id, token}]. Answer: {lost: [n], cancelled: [n]}: leases that were lost, and jobs that somebody wants to stop.
CREATE OR REPLACE FUNCTION {schema}.heartbeat(leases json, lease_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_mergejoin = off AS $$
DECLARE
  now float8;
  ids text[];
  tokens bigint[];
  kept integer[];
  stopping integer[];
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(o.id), array_agg(o.token) INTO ids, tokens FROM json_to_recordset(leases) AS o (id text, token bigint);
  -- Each is looked up by its id (complete_plainly.sql).
  PERFORM FROM {schema}.jobs j WHERE j.id = ANY (ids) AND j.token = ANY (tokens) AND j.lease_until IS NOT NULL
  ORDER BY j.id FOR UPDATE;
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.jobs j SET lease_until = now + lease_ms
    WHERE j.id = ANY (ids) AND j.token = ANY (tokens) AND j.lease_until > now
      AND (array_positions(ids, j.id) && array_positions(tokens, j.token))
    RETURNING j.id, j.token, j.cancel_requested
  )
  SELECT array_agg(o.n), array_agg(o.n ORDER BY o.n) FILTER (WHERE r.cancel_requested) INTO kept, stopping
  FROM renewed r JOIN json_to_recordset(leases) AS o (n integer, id text, token bigint) ON o.token = r.token AND o.id = r.id;
  RETURN json_build_object('cancelled', coalesce(stopping, '{}'), 'lost', ARRAY(
    SELECT o.n FROM json_to_recordset(leases) AS o (n integer) WHERE o.n <> ALL (coalesce(kept, '{}')) ORDER BY o.n));
END
$$;
