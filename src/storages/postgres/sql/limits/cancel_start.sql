-- As if the start of this number had never been. False: there is none, or it was cancelled before. The lock of the name is
-- held; whoever calls tells those who wait for the window.
--
-- What was cancelled has been charged for more than anybody can ever settle for.
CREATE OR REPLACE FUNCTION {schema}.cancel_start(number bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF start.seq IS NULL OR start.spent = 1.7976931348623157e308::float8 THEN
    RETURN false;
  END IF;
  PERFORM {schema}.change_start(start, start.at, start.since, 0, 1.7976931348623157e308::float8);
  RETURN true;
END
$$;
