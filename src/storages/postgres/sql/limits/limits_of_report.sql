-- The names of the limits that `correct_weights` may write to for jobs that run: what they took (limits), and what they hold
-- each for itself.
CREATE OR REPLACE FUNCTION {schema}.limits_of_report(tokens bigint[], limits jsonb[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(
    SELECT l.name FROM {schema}.holds AS h JOIN {schema}.limits AS l ON l.id = h.limit_id WHERE h.token = ANY (tokens)
    UNION
    SELECT l.name FROM unnest(limits_of_report.limits) AS list, jsonb_array_elements(list) AS taken
      JOIN {schema}.limits AS l ON l.id = (taken ->> 0)::bigint);
END
$$;
