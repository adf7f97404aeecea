-- A rule looks at what is kept: starts are counted in its window, and what is held is read where it holds anything.
-- prepare: starts are kept long enough for the window from now on.
CREATE OR REPLACE FUNCTION {schema}.watch(
  account {schema}.limit_account, meter {schema}.limit_meter, now float8, prepare boolean
) RETURNS {schema}.limit_account
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- From a thousand on starts share rows: by a thousandth of the window at the most, which nobody will notice.
  resolution float8 := CASE WHEN meter.max > 1000 THEN meter.window_ms / 1000 ELSE 0 END;
BEGIN
  IF meter.max IS NOT NULL AND meter.window_ms IS NOT NULL THEN
    IF account.watch_ms IS NULL THEN
      account.watch_ms := meter.window_ms;
      account.resolution := resolution;
      account.before := {schema}.window_used(
        account.id, account.window_ms, account.used, account.seen_at, meter.window_ms, now);
      account.before_at := now;
    ELSE
      account.resolution := least(account.resolution, resolution);
    END IF;
    IF prepare AND account.longest < meter.window_ms THEN
      UPDATE {schema}.limits AS l SET longest = meter.window_ms WHERE l.id = account.id;
      account.longest := meter.window_ms;
    END IF;
  END IF;
  IF meter.every_ms IS NOT NULL THEN
    account.every_ms := least(account.every_ms, meter.every_ms);
  END IF;
  IF meter.holds AND account.held IS NULL THEN
    SELECT h.slots, h.probes, h.expires_in INTO account.held, account.probes, account.expires_in
      FROM {schema}.held_of(account.id, account.job_slots, account.open_until, now) AS h;
  END IF;
  RETURN account;
END
$$;
