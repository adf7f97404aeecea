-- Forgets everything that is kept here, what is held as well.
CREATE OR REPLACE FUNCTION {schema}.drop_limit(id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = drop_limit.id;
  DELETE FROM {schema}.holds AS h WHERE h.limit_id = drop_limit.id;
  DELETE FROM {schema}.limits AS l WHERE l.id = drop_limit.id;
END
$$;
