-- Start number `start` of the step takes so much: once, however many rules look at it, and what is more of it. Nothing is
-- written before `account_save`.
CREATE OR REPLACE FUNCTION {schema}.account_take(
  account {schema}.limit_account, meter {schema}.limit_meter, weight float8, slots float8, start bigint, now float8
) RETURNS {schema}.limit_account
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  before float8 := 0;
  more float8;
BEGIN
  IF account.latest = start THEN
    before := account.charged;
  ELSE
    account.starts := account.starts + 1;
  END IF;
  more := greatest(0, weight - before);
  account.latest := start;
  account.charged := before + more;
  account.taken := account.taken + more;
  account.latest_at := greatest(account.latest_at, now);
  IF account.told_left IS NOT NULL THEN
    account.told_left := greatest(0, account.told_left - more);
  END IF;
  IF meter.holds THEN
    account.held := account.held + slots;
    account.probes := account.probes + 1;
    account.job_slots := account.job_slots + slots;
  END IF;
  RETURN account;
END
$$;
