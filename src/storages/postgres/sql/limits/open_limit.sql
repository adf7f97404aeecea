-- What is kept under this name; from now on its starts are kept for at least so long.
CREATE OR REPLACE FUNCTION {schema}.open_limit(name text, longest float8, grp text, now float8) RETURNS {schema}.limits
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
BEGIN
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.name = open_limit.name AND l.grp = open_limit.grp;
  IF kept.longest >= open_limit.longest THEN
    RETURN kept;
  END IF;
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at)
    VALUES (open_limit.name, open_limit.grp, open_limit.longest, now + open_limit.longest)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET longest = greatest(l.longest, excluded.longest)
    RETURNING * INTO kept;
  RETURN kept;
END
$$;
