-- The time of the storage. It does not run backwards: where the clock of the server was set back, all of the storage goes on
-- from the time that was seen last, and stays ahead of the clock by the difference.
--
-- The last time seen is written down once in a while (every 100 ms at most), by whoever comes and need not wait for it. So
-- a step back that is smaller than that is not seen here; no log of starts goes backwards all the same (limits.newest).
--
-- The clock is read after what it is compared with, and again after a wait: else the time that passed in between would look like
-- a clock that was set back.
CREATE OR REPLACE FUNCTION {schema}.moment() RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  seen record;
  now float8;
BEGIN
  SELECT last, skew INTO seen FROM {schema}.meta;
  now := {schema}.wall();
  IF now + seen.skew < seen.last THEN
    SELECT last, skew INTO seen FROM {schema}.meta FOR UPDATE;
    now := {schema}.wall();
    IF now + seen.skew < seen.last THEN
      UPDATE {schema}.meta SET skew = last - now RETURNING last, skew INTO seen;
    END IF;
  ELSIF now + seen.skew >= seen.last + 100 THEN
    PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
    IF FOUND THEN
      UPDATE {schema}.meta SET last = greatest(last, now + seen.skew);
    END IF;
  END IF;
  RETURN now + seen.skew;
END
$$;
