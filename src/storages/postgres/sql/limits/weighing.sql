-- The names of the limits for which it matters how heavy jobs are.
CREATE OR REPLACE FUNCTION {schema}.weighing() RETURNS text[]
LANGUAGE sql STABLE AS $$
  SELECT coalesce(array_agg(name ORDER BY name), '{}') FROM {schema}.rules WHERE rule ->> 'weight' IS NOT NULL
$$;
