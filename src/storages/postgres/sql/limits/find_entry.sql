-- Where in the log a start of this instant was written down, that shares its place with others; NULL: it is not there any
-- more. The place may be somebody else's by now: then the time is another.
CREATE OR REPLACE FUNCTION {schema}.find_entry(limit_id bigint, entry bigint, at float8) RETURNS {schema}.starts
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.starts;
BEGIN
  IF entry <> 0 THEN
    SELECT * INTO found FROM {schema}.starts AS s
      WHERE s.seq = entry AND s.limit_id = find_entry.limit_id AND s.since <= find_entry.at AND s.at >= find_entry.at
        AND s.token IS NULL;
  END IF;
  RETURN found;
END
$$;
