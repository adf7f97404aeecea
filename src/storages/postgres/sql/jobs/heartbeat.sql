-- Keeps leases for lease_ms from now. One that has run out is lost for good, even if nobody has noticed yet.
--
-- Each job is looked up by its id (complete_plainly.sql), and its lease in a hash table of those that are meant, in whatever order
-- they come: a look through all of them, for each, would cost more than anything else. The planner makes that table of a
-- subquery that it cannot turn into a join: therefore IS TRUE.
--
-- leases: [{n, id, token}], in any order. Answer: {lost: [n], cancelled: [n]}: leases that were lost, and jobs that somebody
-- wants to stop.
CREATE OR REPLACE FUNCTION {schema}.heartbeat(leases json, lease_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off
  SET enable_mergejoin = off AS $$
DECLARE
  now float8;
  ns integer[];
  ids text[];
  tokens bigint[];
  ats tid[];
  -- What was kept, and which of that is to be stopped.
  kept_ids text[];
  kept bigint[];
  stopping text[];
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(o.n), array_agg(o.id), array_agg(o.token) INTO ns, ids, tokens
  FROM json_to_recordset(leases) AS o (n integer, id text, token bigint);
  SELECT array_agg(l.at) INTO ats FROM (
    SELECT j.ctid AS at FROM {schema}.jobs j
    WHERE j.id = ANY (ids) AND j.lease_until IS NOT NULL
      AND ((j.id, j.token) IN (SELECT o.id, o.token FROM unnest(ids, tokens) AS o (id, token))) IS TRUE
    ORDER BY j.id FOR UPDATE
  ) l;
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.jobs j SET lease_until = now + lease_ms WHERE j.ctid = ANY (ats) AND j.lease_until > now
    RETURNING j.id, j.token, j.cancel_requested
  )
  SELECT array_agg(r.id), array_agg(r.token), array_agg(r.id) FILTER (WHERE r.cancel_requested) INTO kept_ids, kept, stopping
  FROM renewed r;
  IF cardinality(kept) = cardinality(ids) AND stopping IS NULL THEN
    RETURN '{"lost": [], "cancelled": []}';
  END IF;
  RETURN json_build_object('lost', ARRAY(
      SELECT o.n FROM unnest(ns, ids, tokens) AS o (n, id, token)
      WHERE ((o.id, o.token) IN (SELECT k.id, k.token FROM unnest(kept_ids, kept) AS k (id, token))) IS NOT TRUE ORDER BY o.n
    ), 'cancelled', ARRAY(
      SELECT o.n FROM unnest(ns, ids, tokens) AS o (n, id, token)
      WHERE ((o.id, o.token) IN (SELECT k.id, k.token FROM unnest(kept_ids, kept) AS k (id, token))) IS TRUE
        AND (o.id IN (SELECT s.id FROM unnest(stopping) AS s (id))) IS TRUE ORDER BY o.n
    ));
END
$$;
