-- What the start of this number really used: the last word holds. Inside the window its own entry changes; what becomes known
-- after it has expired is charged from now on, and what has expired is not given back. The lock of the name is held.
--
-- kept: the limit. reserved: what was charged at first.
CREATE OR REPLACE FUNCTION {schema}.settle_start(
  kept {schema}.limits, number bigint, reserved float8, used float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
  counts float8;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF start.seq IS NULL THEN
    IF used > reserved THEN
      PERFORM {schema}.record_named(kept.id, used - reserved, number, reserved, 0, now);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
  ELSIF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, start.since, counts, start.spent);
    PERFORM {schema}.charge_more(kept.id, counts - start.n);
  ELSE
    -- Of a start that has left the window only what it reserved is remembered, as if its row were gone already.
    PERFORM {schema}.charge_start(start, used, CASE WHEN start.spent = 0 THEN reserved ELSE start.spent + start.n END, 0, now);
  END IF;
END
$$;
