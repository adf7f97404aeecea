-- The name of the group that a lane or a state of a limit is for; NULL: of none.
CREATE OR REPLACE FUNCTION {schema}.group_of(grp text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN grp IN ('', '-') THEN NULL ELSE substr(grp, 2) END
$$;
