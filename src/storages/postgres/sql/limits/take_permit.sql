-- Takes of a limit outside of any job, if it fits: checks and takes in one step.
--
-- limit_name, grp: of which limit, and for which group (NULL: none; not looked at where the limit is not by group).
-- asked: how much; NULL: what the rule estimates; 0: only whether what was taken fits. dry: only asks. ttl_ms: so long it is
-- held, unless it is renewed. grant_ttl: it is used within so long of asking, and that is confirmed (confirm); NULL: it is used now.
CREATE OR REPLACE FUNCTION {schema}.take_permit_{version}(
  limit_name text, grp text, asked float8, dry boolean, ttl_ms float8, grant_ttl float8 DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Before anything is waited for.
  arrived float8 := {schema}.wall();
  took float8;
  rule {schema}.limit_rule;
  meter {schema}.limit_meter;
  account {schema}.limit_account;
  own text;
  now float8;
  says float8;
  weight float8;
  slots float8;
  wait float8;
  number bigint;
  until float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  own := CASE WHEN rule.by_group THEN grp END;
  meter := {schema}.meter_of(rule, own);
  account := {schema}.open_account(limit_name, {schema}.state_grp(rule.by_group, own));
  took := greatest(0, {schema}.wall() - arrived);
  now := greatest({schema}.moment(), account.newest, account.latest_at);
  account := {schema}.watch(account, meter, now, true);
  meter.used := {schema}.meter_used(account, meter, now);
  says := coalesce(asked, rule.estimate);
  weight := CASE WHEN rule.max IS NULL THEN 1 ELSE says END;
  slots := CASE WHEN rule.max IS NULL THEN says ELSE 1 END;
  wait := {schema}.limit_wait(meter, account, weight, slots, now);
  -- Of all who wait for a limit, those outside of jobs come last.
  IF wait <> -1 AND rule.weight IS NOT NULL AND asked IS DISTINCT FROM 0 THEN
    wait := greatest(wait, {schema}.heavy_wait(limit_name,
      CASE WHEN rule.by_group THEN {schema}.lane_grp(account.grp) END, '-Infinity', 0, 'Infinity', now, false));
  END IF;
  IF wait <> 0 THEN
    RETURN json_build_object('granted', false,
      'retryInMs', CASE WHEN wait > 0 THEN nullif(wait, 'Infinity') END,
      'most', CASE
        WHEN meter.max > 0 AND weight > meter.max THEN meter.max
        WHEN meter.concurrency > 0 AND slots > meter.concurrency THEN meter.concurrency END);
  END IF;
  IF dry OR asked = 0 THEN
    RETURN '{"granted":true,"held":false}';
  END IF;
  number := nextval('{schema}.numbers');
  account := {schema}.account_take(account, meter, weight, slots, 1, now);
  account := {schema}.account_save(account, true, number, grant_ttl, now - took, now);
  IF account.entry > 0 THEN
    UPDATE {schema}.starts SET token = number WHERE seq = account.entry;
  END IF;
  -- What is only counted may be corrected for ten minutes at least.
  until := CASE WHEN meter.holds THEN 0 ELSE now + greatest(ttl_ms, meter.window_ms, 600000) END;
  IF meter.holds THEN
    INSERT INTO {schema}.holds (limit_id, token, slots, at, until)
      VALUES (account.id, number, slots, now, now + ttl_ms);
  ELSIF rule.by_group AND account.entry > 0 THEN
    -- A group that is idle would be forgotten before.
    INSERT INTO {schema}.holds (limit_id, token, slots, at, until) VALUES (account.id, number, 0, now, until);
  END IF;
  -- Old starts are deleted by whoever takes one: there may be nobody who sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(account.id, now);
  END IF;
  RETURN json_build_object('granted', true, 'held', meter.holds,
    'token', json_build_array(account.id, number, weight, now, until),
    'grant', CASE WHEN grant_ttl IS NOT NULL AND (account.entry > 0 OR account.every_ms IS NOT NULL) THEN json_build_array(number,
      {schema}.confirm_in(least(CASE WHEN meter.max IS NOT NULL THEN meter.window_ms END, meter.every_ms))) END);
END
$$;
