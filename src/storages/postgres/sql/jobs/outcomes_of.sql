-- Outcomes that all ended well, as a list (jobs/outcomes.ts), but for those whose tokens are done. ids, leased, results: as
-- complete_plainly.
CREATE OR REPLACE FUNCTION {schema}.outcomes_of(ids text[], leased bigint[], results jsonb, done bigint[]) RETURNS json
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(json_agg(json_build_object('n', o.no - 1, 'id', o.id, 'token', o.token, 'result', results ->> o.id)), '[]')
  FROM unnest(ids, leased) WITH ORDINALITY AS o (id, token, no) WHERE o.token <> ALL (done)
$$;
