-- When does the spacing of a rule let one more start, by when the latest start was called? Where that is not confirmed: when it is
-- worth looking again (look_again_in). NULL, or not above 0: now.
CREATE OR REPLACE FUNCTION {schema}.spacing_wait(
  meter {schema}.limit_meter, account {schema}.limit_account, now float8
) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  delay float8 := {schema}.expected_delay(account.called_in, meter.every_ms);
  certain float8;
BEGIN
  IF account.starts > 0 THEN
    RETURN meter.every_ms + CASE WHEN account.grant_ttl IS NULL THEN 0 ELSE least(account.grant_ttl, coalesce(delay, 0)) END;
  END IF;
  certain := meter.every_ms - (now - account.called_at);
  IF certain > 0 AND account.called_by IS NOT NULL THEN
    RETURN {schema}.look_again_in(now - (account.latest_at + delay), meter.every_ms, certain);
  END IF;
  RETURN certain;
END
$$;
