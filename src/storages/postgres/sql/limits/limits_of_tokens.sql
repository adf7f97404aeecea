-- The names of the limits of which starts with these tokens, in their order, hold something.
CREATE OR REPLACE FUNCTION {schema}.limits_of_tokens(tokens bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF coalesce(cardinality(tokens), 0) = 0 THEN
    RETURN '{}';
  END IF;
  RETURN ARRAY(SELECT DISTINCT l.name FROM {schema}.holds AS h JOIN {schema}.limits AS l ON l.id = h.limit_id
    WHERE h.token = ANY (CASE WHEN {schema}.hold_alone(tokens) THEN tokens ELSE '{}' END || ({schema}.blocks_of(tokens)).blocks));
END
$$;
