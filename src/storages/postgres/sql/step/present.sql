-- The time of the storage for whoever only reads: what step/moment.sql would say, without writing anything down. VOLATILE: it looks
-- at the clock as it is when it is called, and not as it was when the statement around it began (step/repair_clock.sql).
CREATE OR REPLACE FUNCTION {schema}.present() RETURNS float8
LANGUAGE sql VOLATILE AS $$
  SELECT greatest(last, {schema}.wall() + skew) FROM {schema}.meta
$$;
