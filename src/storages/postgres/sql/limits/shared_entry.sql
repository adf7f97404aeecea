-- The place in the log that starts of this instant share with the newest ones, which are less than `resolution` apart; NULL:
-- they get one of their own. Starts that are or were to be confirmed share nothing.
CREATE OR REPLACE FUNCTION {schema}.shared_entry(id bigint, newest float8, resolution float8, now float8) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  latest record;
BEGIN
  IF now = newest OR now - newest < resolution THEN
    SELECT s.seq, s.since, s.token, s.began INTO latest FROM {schema}.starts AS s
      WHERE s.limit_id = shared_entry.id ORDER BY s.at DESC, s.seq DESC LIMIT 1;
    IF latest.token IS NULL AND latest.began IS NULL AND (now = latest.since OR now - latest.since < resolution) THEN
      RETURN latest.seq;
    END IF;
  END IF;
  RETURN NULL;
END
$$;
