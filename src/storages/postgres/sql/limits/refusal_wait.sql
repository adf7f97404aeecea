-- How long a start has to wait for one limit that refused it (verdict.sql). -1: for ever.
--
-- rule, grp: which limit, for which group, as lanes say it. weight, slots: what the start takes. taken, taken_slots, starts: what the step
-- has taken of it so far, in how many starts, and does not stand in the tables yet. ttl: how soon these are called; NULL: at once.
CREATE OR REPLACE FUNCTION {schema}.refusal_wait(
  rule {schema}.limit_rule, grp text, weight float8, slots float8, taken float8, taken_slots float8, starts integer, ttl float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  meter {schema}.limit_meter := {schema}.meter_of(rule, CASE WHEN grp <> '' THEN substr(grp, 2) END);
  account {schema}.limit_account;
  kept record;
BEGIN
  SELECT k.account, k.used INTO kept FROM {schema}.kept_accounts(ARRAY[rule.name],
    ARRAY[{schema}.state_grp(rule.by_group, CASE WHEN grp <> '' THEN substr(grp, 2) END)],
    ARRAY[CASE WHEN meter.max IS NOT NULL THEN meter.window_ms END], ARRAY[meter.holds], now) AS k;
  account := kept.account;
  meter.used := coalesce(kept.used, 0);
  account.taken := taken;
  account.starts := starts;
  account.held := account.held + taken_slots;
  account.probes := account.probes + starts;
  account.told_left := greatest(0, account.told_left - taken);
  account.grant_ttl := ttl;
  RETURN ({schema}.verdict(meter, account, weight, slots, now)).wait;
END
$$;
