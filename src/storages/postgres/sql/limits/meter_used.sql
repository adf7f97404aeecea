-- How much of the window of a rule was in use before the step; 0 without one. After `watch`.
CREATE OR REPLACE FUNCTION {schema}.meter_used(
  account {schema}.limit_account, meter {schema}.limit_meter, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF meter.max IS NULL OR meter.window_ms IS NULL THEN
    RETURN 0;
  END IF;
  IF meter.window_ms = account.watch_ms THEN
    RETURN account.before;
  END IF;
  RETURN {schema}.window_used(account.id, account.window_ms, account.used, account.seen_at, meter.window_ms, now);
END
$$;
