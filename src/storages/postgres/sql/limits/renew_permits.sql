-- Keeps what permits hold, for so long from now at least. Answers with the numbers of those that hold something still: what
-- has expired is never revived.
--
-- numbers: a list of them.
CREATE OR REPLACE FUNCTION {schema}.renew_permits_{version}(numbers jsonb, ttl_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tokens bigint[] := ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(numbers));
  names text[];
  now float8;
  kept jsonb;
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(DISTINCT l.name) INTO names
    FROM {schema}.holds h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (tokens);
  PERFORM {schema}.lock_limits(names);
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.holds h SET until = greatest(h.until, now + ttl_ms) WHERE h.token = ANY (tokens) AND h.until > now
    RETURNING h.token
  )
  SELECT coalesce(jsonb_agg(token), '[]') INTO kept FROM renewed;
  RETURN jsonb_build_object('kept', kept);
END
$$;
