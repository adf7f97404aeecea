-- How long a job that ended is kept if it does not say so itself: a day, and 30 days if dead.
CREATE OR REPLACE FUNCTION {schema}.kept_ms(state text) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE state WHEN 'dead' THEN 2592000000 ELSE 86400000 END::float8
$$;
