-- Opens meters: at first those of the rules for all, then, of groups that nobody has met before, those of the rules by group;
-- with the heavy heads that wait for them. Where a rule comes down to numbers these are written beside it.
--
-- Reads: new_groups (NULL: those for all), rules, ttl. Changes: meters, accounts and what is known of them, the lists of heavy heads;
-- now, which is not before any start that is known.
DECLARE
  opened record;
  from_rule integer := 1;
  to_rule integer := all_count;
  old_count integer := cardinality(accounts);
  k integer := cardinality(meters);
  heavy record;
BEGIN
  IF new_groups IS NULL THEN
    SELECT * INTO opened FROM {schema}.meters_for_all(rules[1 : all_count], now);
  ELSE
    SELECT * INTO opened FROM {schema}.walk_meters(rules[all_count + 1 : rule_count], new_groups, now);
    from_rule := all_count + 1;
    to_rule := rule_count;
  END IF;
  now := opened.at;
  accounts := accounts || opened.accounts;
  FOREACH meter IN ARRAY opened.meters LOOP
    k := k + 1;
    meter.account := meter.account + old_count;
    meters := meters || meter;
    account := accounts[meter.account];
    IF ttl IS NOT NULL THEN
      account.grant_ttl := ttl;
      accounts[meter.account] := account;
    END IF;
    m_closed[k] := 0;
    m_account[k] := meter.account;
    m_max[k] := CASE WHEN meter.max IS NULL OR meter.window_ms IS NULL THEN forever WHEN meter.max = 0 THEN -1
      ELSE meter.max END;
    m_used[k] := meter.used;
    m_slots[k] := coalesce(meter.concurrency, forever);
    m_plain[k] := NOT meter.paused AND meter.every_ms IS NULL AND coalesce(meter.held_until <= now, true)
      AND coalesce(account.pause_until <= now, true) AND coalesce(account.told_until <= now, true)
      AND (meter.probes IS NULL OR account.open_until IS NULL) AND (meter.window_ms IS NULL OR (
        coalesce(meter.blind_until <= now, true) AND coalesce(now - account.forgotten_at >= meter.window_ms, true)));
    a_taken[meter.account] := account.taken;
    a_held[meter.account] := coalesce(account.held, 0);
  END LOOP;
  FOR r IN from_rule .. to_rule LOOP
    CONTINUE WHEN weighs[r] IS NULL;
    FOR heavy IN SELECT * FROM {schema}.heavy_heads((rules[r]).name, new_groups, now) LOOP
      heavy_count := heavy_count + 1;
      at := CASE WHEN r <= all_count THEN r ELSE r + (array_position(groups, heavy.grp) - 1) * group_count END;
      h_next[heavy_count] := coalesce(m_heavy[at], 0);
      m_heavy[at] := heavy_count;
      h_lane[heavy_count] := heavy.lane;
      h_priority[heavy_count] := heavy.priority;
      h_until[heavy_count] := heavy.until;
      h_since[heavy_count] := heavy.since;
    END LOOP;
  END LOOP;
  unopened := false;
END;
