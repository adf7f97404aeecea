-- How much could start at once: 0 if anything is in the way; 'Infinity': as much as anybody likes. What is weighed is told
-- by weight; what counts starts then leaves room for one at least.
CREATE OR REPLACE FUNCTION {schema}.free_of(
  meter {schema}.limit_meter, account {schema}.limit_account, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  weighs boolean := meter.weight IS NOT NULL;
  free float8 := 'Infinity';
BEGIN
  IF {schema}.limit_wait(meter, account, 1, 1, now) <> 0 THEN
    RETURN 0;
  END IF;
  IF meter.max IS NOT NULL THEN
    free := meter.max - (meter.used + account.taken);
  END IF;
  IF meter.concurrency IS NOT NULL AND NOT (weighs AND meter.max IS NOT NULL) THEN
    free := least(free, meter.concurrency - account.held);
  END IF;
  IF now < account.told_until AND NOT (weighs AND meter.max IS NULL) THEN
    free := least(free, coalesce(account.told_left, 0));
  END IF;
  IF NOT weighs AND meter.every_ms IS NOT NULL THEN
    free := least(free, 1);
  END IF;
  IF NOT weighs AND meter.probes IS NOT NULL AND account.open_until IS NOT NULL THEN
    free := least(free, meter.probes - account.probes);
  END IF;
  RETURN free;
END
$$;
