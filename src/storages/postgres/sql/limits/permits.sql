-- Permits: what is taken of limits outside of jobs.
--
-- Locks: the rules (shared), the limits.

-- Takes of a limit outside of any job, if it fits: checks and takes in one step.
--
-- limit_name, grp: of which limit, and for which group or other value (NULL: none; not looked at where the limit is not by group).
-- by_names: the names that this is the value of, as a list; where the limit is by others, nothing is taken, and the answer says by which; NULL:
-- not checked. asked: how much; NULL: what the rule estimates; 0: only whether what was taken fits. dry: only asks. ttl_ms: so long it is
-- held, unless it is renewed. grant_ttl: it is used within so long of asking, and that is confirmed (confirm); NULL: it is used now.
CREATE OR REPLACE FUNCTION {schema}.take_permit_{version}(
  limit_name text, grp text, by_names jsonb, asked float8, dry boolean, ttl_ms float8, grant_ttl float8 DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Before anything is waited for.
  arrived float8 := {schema}.wall();
  rule {schema}.limit_rule;
  state_grp text;
  names jsonb;
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
  names := CASE WHEN rule.by_group THEN to_jsonb(coalesce(rule.by_keys, '{group}')) ELSE '[]' END;
  IF by_names <> names THEN
    RETURN json_build_object('granted', false, 'retryInMs', 0, 'most', NULL, 'by', names);
  END IF;
  state_grp := {schema}.state_grp(rule.by_group, grp);
  -- The value is known, and need not be found by keys.
  rule.by_keys := NULL;
  says := coalesce(asked, rule.estimate);
  weight := CASE WHEN rule.max IS NULL THEN 1 ELSE says END;
  slots := CASE WHEN rule.max IS NULL THEN says ELSE 1 END;
  took := greatest(0, {schema}.wall() - arrived);
  keys := {schema}.open_keys(ARRAY[rule], CASE WHEN rule.by_group THEN 0 ELSE 1 END, CASE WHEN rule.by_group THEN ARRAY[coalesce(':' || grp, '')] ELSE '{}' END,
    '{}', least(1000000000, ceil(weight))::integer, grant_ttl, {schema}.moment());
  now := keys.at;
  IF keys.closed[1] OR weight > keys.weights[1] OR slots > keys.slots[1] OR keys.starts[1] < 1 OR weight > keys.maxima[1]
    OR slots > keys.concurrency[1] THEN
    wait := {schema}.refusal_wait(rule, state_grp, weight, slots, 0, 0, 0, NULL, now);
  END IF;
  -- Of all who wait for a limit, those outside of jobs come last.
  IF wait <> -1 AND rule.weight IS NOT NULL AND asked IS DISTINCT FROM 0 THEN
    wait := greatest(wait, {schema}.heavy_wait(limit_name, state_grp, '-Infinity', 0, 'Infinity', now, false));
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

-- Ends, cancels or corrects what a token names: a permit, or a start under a rate (rates.ts), which holds nothing and may be corrected
-- at any time. A token that is unknown, has ended or has expired changes nothing.
--
-- only_name: the rate; NULL: a permit. limit_id, number, reserved, taken_at, corrected_until: its token; that of a rate has no instants.
-- how: 'released', 'cancelled' or 'used'. used: so much, of the last of these.
CREATE OR REPLACE FUNCTION {schema}.give_permit_{version}(
  only_name text, limit_id bigint, number bigint, reserved float8, taken_at float8, corrected_until float8, how text, used float8
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  limit_name text;
  now float8;
  held {schema}.holds;
  holder {schema}.limits;
  kept {schema}.limits;
  ended boolean;
  rule {schema}.limit_rule;
  given {schema}.limit_given[] := '{}';
BEGIN
  PERFORM {schema}.begin_step();
  -- After a reset what is held is kept elsewhere, under the same name.
  SELECT l.name INTO limit_name FROM {schema}.limits l
    WHERE (l.id = give_permit_{version}.limit_id OR l.id IN (SELECT h.limit_id FROM {schema}.holds h WHERE h.token = number))
      AND (only_name IS NULL OR l.name = only_name) LIMIT 1;
  IF limit_name IS NULL OR number <= 0 OR number > (SELECT n.last_value FROM {schema}.numbers n) THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  SELECT * INTO held FROM {schema}.holds h WHERE h.token = number AND h.until > now;
  ended := held.token IS NULL AND EXISTS (SELECT FROM {schema}.starts s WHERE s.token = -number);
  IF (held.token IS NULL AND NOT ended AND now >= corrected_until) OR (ended AND how <> 'used') THEN
    RETURN '{}';
  END IF;
  rule := {schema}.rule_named(limit_name);
  SELECT * INTO kept FROM {schema}.limits l WHERE l.id = give_permit_{version}.limit_id;
  SELECT * INTO holder FROM {schema}.limits l WHERE l.id = held.limit_id;
  IF how <> 'used' THEN
    IF held.token IS NOT NULL THEN
      DELETE FROM {schema}.holds h WHERE h.limit_id = held.limit_id AND h.token = number;
      given := {schema}.release_slots(holder, rule, held.slots, ARRAY[held.at], now);
    END IF;
    IF kept.id IS NOT NULL AND {schema}.end_start(kept, number, taken_at, corrected_until, how = 'cancelled', now) THEN
      given := given || {schema}.window_freed(kept.name, kept.grp, now);
    END IF;
  ELSIF rule.max IS NOT NULL OR corrected_until IS NULL THEN
    IF kept.id IS NOT NULL AND {schema}.settle_start(kept, number, reserved, corrected_until, used, now) THEN
      given := {schema}.window_freed(kept.name, kept.grp, now);
    END IF;
  ELSIF rule.name IS NOT NULL AND held.slots <> used THEN
    UPDATE {schema}.holds h SET slots = used WHERE h.limit_id = held.limit_id AND h.token = number;
    IF used < held.slots THEN
      given := {schema}.release_slots(holder, rule, held.slots - used, ARRAY[held.at], now);
    END IF;
  END IF;
  RETURN json_build_object('wakeAll', {schema}.is_earlier(given, now));
END
$$;

-- Keeps what permits hold, for so long from now at least. Answers with the numbers of those that hold something still: what
-- has expired is never revived.
--
-- numbers: a list of them.
CREATE OR REPLACE FUNCTION {schema}.renew_permits_{version}(numbers jsonb, ttl_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  tokens bigint[] := ARRAY(SELECT value::bigint FROM jsonb_array_elements_text(numbers));
  names text[];
  now float8;
  kept jsonb;
BEGIN
  PERFORM {schema}.begin_step();
  SELECT array_agg(DISTINCT l.name) INTO names
    FROM {schema}.holds h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (tokens);
  PERFORM {schema}.lock_limits(names);
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.holds h SET until = greatest(h.until, now + ttl_ms) WHERE h.token = ANY (tokens) AND h.until > now
    RETURNING h.token
  )
  SELECT coalesce(jsonb_agg(token), '[]') INTO kept FROM renewed;
  RETURN jsonb_build_object('kept', kept);
END
$$;
