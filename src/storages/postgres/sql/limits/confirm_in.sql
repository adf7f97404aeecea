-- When it is worth a call of its own to confirm starts that count under windows, the shortest of which is this: confirmInMs in
-- storage/grants.ts. NULL: they only count in a log that others look at.
CREATE OR REPLACE FUNCTION {schema}.confirm_in(shortest float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT least(shortest / 2, 1000)
$$;
