-- The clock of the server, in milliseconds since 1970. Nothing else reads it: tests put another one in its place.
CREATE OR REPLACE FUNCTION {schema}.wall() RETURNS float8
LANGUAGE sql VOLATILE PARALLEL SAFE AS $$
  SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) OPERATOR(pg_catalog.*) 1000)::pg_catalog.float8
$$;
