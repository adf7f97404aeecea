-- Where processes tell each other that there is something to look at.
CREATE OR REPLACE FUNCTION {schema}.channel() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT 'sluice:' || btrim('{schema}', '"')
$$;
