-- The group as the state of a limit says it: '' for all; where it is by group ':' and its name, and '-' for jobs without one.
CREATE OR REPLACE FUNCTION {schema}.state_grp(by_group boolean, grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN NOT by_group THEN '' WHEN grp IS NULL THEN '-' ELSE ':' || grp END
$$;
