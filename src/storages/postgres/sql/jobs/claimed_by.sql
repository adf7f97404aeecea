-- The leases that a claim has given and that are in force, and what is to be confirmed of it: for a client that has given up waiting for
-- the answer. claim: its number. Volatile, for it looks after the claim was waited for (begin_attempt).
CREATE OR REPLACE FUNCTION {schema}.claimed_by(claim bigint, worker text) RETURNS text
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT json_build_object('leases', coalesce(json_agg(json_build_array(j.id, j.token) ORDER BY j.token), '[]'),
    'grant', {schema}.grant_of(-{schema}.block_of(min(j.token))))
  FROM {schema}.jobs j WHERE j.state = 'active' AND j.claim = claimed_by.claim AND j.worker = claimed_by.worker
$$;
