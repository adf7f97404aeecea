-- What starts with these tokens, in their order, hold in one row each claim (block_of), and how many of them: two lists.
CREATE OR REPLACE FUNCTION {schema}.blocks_of(tokens bigint[], OUT blocks bigint[], OUT counts integer[])
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  blocks := ARRAY[{schema}.block_of(tokens[1])];
  counts := ARRAY[cardinality(tokens)];
  -- Almost always they come from one claim.
  IF blocks[1] <> {schema}.block_of(tokens[counts[1]]) THEN
    SELECT array_agg(b.block), array_agg(b.n) INTO blocks, counts FROM (
      SELECT {schema}.block_of(token) AS block, count(*) AS n FROM unnest(tokens) AS token GROUP BY 1) AS b;
  END IF;
END
$$;
