-- Has an instant passed that somebody gave by the clock of the server? NULL, for there is none: yes. Asked of what has passed by the
-- clock of the storage, which may have been set forward since the instant was given.
CREATE OR REPLACE FUNCTION {schema}.has_passed(given float8) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN given IS NULL THEN true ELSE given <= {schema}.wall() END
$$;
