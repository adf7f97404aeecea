-- What the claim of this number has started, and lost since without a call, as its leases ran out, gets its attempt back. Answer: {woken}.
CREATE OR REPLACE FUNCTION {schema}.unspend_claim(number bigint) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET jit = off SET enable_seqscan = off AS $$
BEGIN
  PERFORM {schema}.begin_step({schema}.many_rules());
  RETURN (SELECT json_build_object('woken', {schema}.unspend(array_agg(j.id), array_agg(j.token)))
    FROM {schema}.jobs j WHERE j.claim < 0 AND j.claim = -number);
END
$$;
