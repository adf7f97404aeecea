-- The live workers of a queue, or of all (NULL).
CREATE OR REPLACE FUNCTION {schema}.read_workers(of_queue text) RETURNS jsonb
LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
  SELECT {schema}.live_workers(of_queue, {schema}.present())
$$;
