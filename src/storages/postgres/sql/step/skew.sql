-- How far the clock of the storage is ahead of the clock of the server, as step/moment.sql would say. People give and see instants by the
-- clock of the server: what they give is kept with this added, what they see is shown without.
CREATE OR REPLACE FUNCTION {schema}.skew() RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(skew, last - {schema}.wall()) FROM {schema}.meta
$$;
