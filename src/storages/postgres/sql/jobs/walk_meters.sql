-- The rules of a claim as they hold for these groups, and what is kept of them: for each group one meter of each rule, in order,
-- with an account of its own. All of them are read together. `at`: not before any start that is known.
--
-- rules: which, all by group. grps: of which groups, as lanes say it. at: now.
CREATE OR REPLACE FUNCTION {schema}.walk_meters(
  rules {schema}.limit_rule[], grps text[], INOUT at float8, OUT meters {schema}.limit_meter[],
  OUT accounts {schema}.limit_account[]
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  -- As it holds for groups of which nothing else is said.
  plain {schema}.limit_meter[] := '{}';
  names text[] := '{}';
  states text[] := '{}';
  windows float8[] := '{}';
  holding boolean[] := '{}';
  used float8[];
  latest float8;
  place integer := 0;
  grp text;
BEGIN
  meters := '{}';
  FOREACH rule IN ARRAY rules LOOP
    plain := plain || {schema}.meter_of(rule, NULL);
  END LOOP;
  FOREACH grp IN ARRAY grps LOOP
    FOR r IN 1 .. cardinality(rules) LOOP
      place := place + 1;
      meter := plain[r];
      IF grp <> '' THEN
        IF (rules[r]).groups ? substr(grp, 2) THEN
          meter := {schema}.meter_of(rules[r], substr(grp, 2));
        ELSE
          meter.grp := substr(grp, 2);
        END IF;
      END IF;
      meter.account := place;
      meters[place] := meter;
      names[place] := meter.name;
      states[place] := CASE WHEN grp = '' THEN '-' ELSE grp END;
      windows[place] := CASE WHEN meter.max IS NOT NULL THEN meter.window_ms END;
      holding[place] := meter.holds;
    END LOOP;
  END LOOP;
  LOOP
    SELECT array_agg(k.account ORDER BY k.place), array_agg(k.used ORDER BY k.place), max(k.latest)
      INTO accounts, used, latest FROM {schema}.kept_accounts(names, states, windows, holding, at) AS k;
    EXIT WHEN latest IS NULL OR latest <= at;
    at := latest;
  END LOOP;
  FOR i IN 1 .. place LOOP
    meter := meters[i];
    IF meter.every_ms IS NOT NULL THEN
      accounts[i].every_ms := meter.every_ms;
    END IF;
    IF windows[i] IS NOT NULL THEN
      meter.used := used[i];
      meters[i] := meter;
      IF meter.max > 1000 OR (accounts[i]).longest < windows[i] THEN
        accounts[i] := {schema}.watch(accounts[i], meter, at, true);
      END IF;
    END IF;
  END LOOP;
END
$$;
