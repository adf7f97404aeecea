-- A storage that listened does so no more.
CREATE OR REPLACE FUNCTION {schema}.leave(origin text) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  DELETE FROM {schema}.listeners l WHERE l.origin = leave.origin
$$;
