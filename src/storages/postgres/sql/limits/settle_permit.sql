-- What a permit really used: as settle_start, but all that was charged for it is remembered for as long as it may be
-- corrected (until). True: there is more room. The lock of the name is held.
CREATE OR REPLACE FUNCTION {schema}.settle_permit(
  kept {schema}.limits, number bigint, reserved float8, until float8, used float8, now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
  counts float8;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token IN (number, -number) ORDER BY token DESC LIMIT 1;
  IF start.seq IS NULL THEN
    IF used > reserved THEN
      PERFORM {schema}.record_named(kept.id, used - reserved, number, reserved, until, now);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
  ELSIF start.spent = 1.7976931348623157e308::float8 THEN
    RETURN false;
  ELSIF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, greatest(start.since, until), counts, start.spent);
    IF counts < start.n THEN
      RETURN true;
    END IF;
    PERFORM {schema}.charge_more(kept.id, counts - start.n);
  ELSIF start.token > 0 THEN
    PERFORM {schema}.charge_start(start, used, start.spent + start.n, until, now);
  END IF;
  RETURN false;
END
$$;
