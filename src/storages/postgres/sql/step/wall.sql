-- The clock of the server, in milliseconds since 1970. Nothing else reads it: tests put another one in its place.
CREATE OR REPLACE FUNCTION {schema}.wall() RETURNS float8
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8
$$;
