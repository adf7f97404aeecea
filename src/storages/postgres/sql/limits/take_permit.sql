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
  rule {schema}.limit_rule;
  -- The group as lanes say it.
  lane text;
  keys {schema}.claim_keys;
  charged record;
  now float8;
  says float8;
  weight float8;
  slots float8;
  wait float8 := 0;
  number bigint;
  until float8;
  took float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  lane := CASE WHEN rule.by_group THEN coalesce(':' || grp, '') END;
  says := coalesce(asked, rule.estimate);
  weight := CASE WHEN rule.max IS NULL THEN 1 ELSE says END;
  slots := CASE WHEN rule.max IS NULL THEN says ELSE 1 END;
  took := greatest(0, {schema}.wall() - arrived);
  keys := {schema}.open_keys(ARRAY[rule], CASE WHEN rule.by_group THEN 0 ELSE 1 END, CASE WHEN rule.by_group THEN ARRAY[lane] ELSE '{}' END,
    least(1000000000, ceil(weight))::integer, grant_ttl, {schema}.moment());
  now := keys.at;
  IF keys.closed[1] OR weight > keys.weights[1] OR slots > keys.slots[1] OR keys.starts[1] < 1 OR weight > keys.maxima[1]
    OR slots > keys.concurrency[1] THEN
    wait := {schema}.refusal_wait(rule, lane, weight, slots, 0, 0, 0, NULL, now);
  END IF;
  -- Of all who wait for a limit, those outside of jobs come last.
  IF wait <> -1 AND rule.weight IS NOT NULL AND asked IS DISTINCT FROM 0 THEN
    wait := greatest(wait, {schema}.heavy_wait(limit_name, lane, '-Infinity', 0, 'Infinity', now, false));
  END IF;
  IF wait <> 0 THEN
    RETURN json_build_object('granted', false,
      'retryInMs', CASE WHEN wait > 0 THEN nullif(wait, 'Infinity') END,
      'most', CASE
        WHEN keys.maxima[1] > 0 AND weight > keys.maxima[1] THEN keys.maxima[1]
        WHEN keys.concurrency[1] > 0 AND slots > keys.concurrency[1] THEN keys.concurrency[1] END);
  END IF;
  IF dry OR asked = 0 THEN
    RETURN '{"granted":true,"held":false}';
  END IF;
  number := nextval('{schema}.numbers');
  SELECT * INTO charged FROM {schema}.charge_keys(keys, ARRAY[weight], ARRAY[1], ARRAY[0], number, grant_ttl, now - took, now, true);
  -- What is only counted may be corrected for ten minutes at least.
  until := CASE WHEN keys.holds[1] THEN 0 ELSE now + greatest(ttl_ms, keys.windows[1], 600000) END;
  IF keys.holds[1] THEN
    INSERT INTO {schema}.holds (limit_id, token, slots, at, until)
      VALUES (charged.ids[1], number, slots, now, now + ttl_ms);
  ELSIF rule.by_group AND charged.entries[1] > 0 THEN
    -- A group that is idle would be forgotten before.
    INSERT INTO {schema}.holds (limit_id, token, slots, at, until) VALUES (charged.ids[1], number, 0, now, until);
  END IF;
  -- Old starts are deleted by the permits themselves, now and then: there may be nothing that sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(charged.ids[1], now);
  END IF;
  RETURN json_build_object('granted', true, 'held', keys.holds[1],
    'token', json_build_array(charged.ids[1], number, weight, now, until),
    'grant', CASE WHEN charged.confirm_in IS NOT NULL THEN json_build_array(number, charged.confirm_in) END);
END
$$;
