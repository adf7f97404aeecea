-- Does anybody wait for jobs to end? A listener that wants all events hears of that by them.
CREATE OR REPLACE FUNCTION {schema}.ends_wanted(now float8) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM {schema}.listeners WHERE ends AND until > now)
$$;
