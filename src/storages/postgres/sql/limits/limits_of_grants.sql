-- The names of the limits that these grants count under and are not confirmed for. Nothing is added to a grant that was answered.
CREATE OR REPLACE FUNCTION {schema}.limits_of_grants(grants bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(SELECT DISTINCT l.name FROM {schema}.starts AS s JOIN {schema}.limits AS l ON l.id = s.limit_id
    WHERE s.claim = ANY (grants));
END
$$;
