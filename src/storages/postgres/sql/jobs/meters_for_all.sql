-- The rules of a claim that are for all, and what is kept of them: a meter of each, in order; those of one name share an account.
-- Starts are kept long enough for them from now on. `at`: not before any start that is known.
--
-- rules: which, none of them by group. at: now.
CREATE OR REPLACE FUNCTION {schema}.meters_for_all(
  rules {schema}.limit_rule[], INOUT at float8, OUT meters {schema}.limit_meter[], OUT accounts {schema}.limit_account[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  names text[] := '{}';
  place integer;
BEGIN
  meters := '{}';
  accounts := '{}';
  FOREACH rule IN ARRAY rules LOOP
    meter := {schema}.meter_of(rule, NULL);
    place := array_position(names, rule.name);
    IF place IS NULL THEN
      account := {schema}.open_account(rule.name, '');
      at := greatest(at, account.newest, account.latest_at);
      names := names || rule.name;
      accounts := accounts || account;
      place := cardinality(names);
    END IF;
    meter.account := place;
    meters := meters || meter;
  END LOOP;
  FOR i IN 1 .. cardinality(meters) LOOP
    meter := meters[i];
    account := {schema}.watch(accounts[meter.account], meter, at, true);
    accounts[meter.account] := account;
    meter.used := {schema}.meter_used(account, meter, at);
    meters[i] := meter;
  END LOOP;
END
$$;
