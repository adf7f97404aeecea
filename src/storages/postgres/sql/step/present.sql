-- The time of the storage for whoever only reads: what step/moment.sql would say, without writing anything down.
CREATE OR REPLACE FUNCTION {schema}.present() RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT greatest(last, {schema}.wall() + skew) FROM {schema}.meta
$$;
