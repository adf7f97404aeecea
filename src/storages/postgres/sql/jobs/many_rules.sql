-- Are there so many limits that whoever locks some of them had better have the storage for himself? Every lock takes a place in
-- a table of the server that is not large.
CREATE OR REPLACE FUNCTION {schema}.many_rules() RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN EXISTS (SELECT FROM {schema}.rules OFFSET 64);
END
$$;
