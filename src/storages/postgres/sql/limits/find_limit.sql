-- What is kept under this name, for one group or for all. All of it is NULL where nothing is.
CREATE OR REPLACE FUNCTION {schema}.find_limit(name text, grp text DEFAULT '') RETURNS {schema}.limits
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.limits;
BEGIN
  SELECT * INTO found FROM {schema}.limits AS l WHERE l.name = find_limit.name AND l.grp = find_limit.grp;
  RETURN found;
END
$$;
