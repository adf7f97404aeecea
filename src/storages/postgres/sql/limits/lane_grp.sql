-- The lanes that a state by group is for: a lane says '' where there is no group.
CREATE OR REPLACE FUNCTION {schema}.lane_grp(grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN grp = '-' THEN '' ELSE grp END
$$;
