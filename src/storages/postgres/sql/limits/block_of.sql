-- What all that start with a token hold in one row is called by: the number that their claim drew, below zero. A claim draws
-- a number, and the 9,999 after it are its own as well.
CREATE OR REPLACE FUNCTION {schema}.block_of(token bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT (token - 1) % 10000 - token
$$;
