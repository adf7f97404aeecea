-- What an advisory lock of this kind is called, for this name. Two names that share a number only wait for each other.
CREATE OR REPLACE FUNCTION {schema}.lock_key(kind text, name text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT hashtextextended(kind || ':' || name, hashtextextended('{schema}', 7309453))
$$;
