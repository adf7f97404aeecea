-- Was this number ever given to a start or a permit?
CREATE OR REPLACE FUNCTION {schema}.is_issued(number bigint) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT number > 0 AND number <= last_value FROM {schema}.numbers
$$;
