-- Does anybody want to hear what happens?
CREATE OR REPLACE FUNCTION {schema}.events_wanted(now float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM {schema}.listeners WHERE events AND until > now)
$$;
