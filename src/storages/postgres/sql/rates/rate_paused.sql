-- For how long nothing starts under this name; NULL: there is no hold.
CREATE OR REPLACE FUNCTION {schema}.rate_paused_{version}(name text) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.pause_until - {schema}.present() FROM {schema}.limits l
  WHERE l.name = rate_paused_{version}.name AND l.grp = '' AND l.pause_until IS NOT NULL
$$;
