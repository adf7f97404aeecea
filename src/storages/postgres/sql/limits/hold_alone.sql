-- May one of the starts with these tokens, in their order, hold something for itself? One look instead of one for each of them: where
-- limits are the same for all jobs of a claim, none does.
CREATE OR REPLACE FUNCTION {schema}.hold_alone(tokens bigint[]) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM {schema}.holds AS h WHERE h.token >= tokens[1] AND h.token <= tokens[cardinality(tokens)]);
END
$$;
