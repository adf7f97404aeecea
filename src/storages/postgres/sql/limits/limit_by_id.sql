-- What is kept under this number. All of it is NULL where nothing is, or where it was cleared since.
CREATE OR REPLACE FUNCTION {schema}.limit_by_id(id bigint) RETURNS {schema}.limits
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.limits;
BEGIN
  SELECT * INTO found FROM {schema}.limits AS l WHERE l.id = limit_by_id.id;
  RETURN found;
END
$$;
