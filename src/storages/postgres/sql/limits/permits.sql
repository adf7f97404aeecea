-- Limits outside of jobs: permits, rates (windows of limiters that are no limits of jobs), and what a service says of a limit.
--
-- Locks: the rules (shared), then the limit.

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
  PERFORM {schema}.begin_step();
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
    '{}', least(1000000000, ceil(weight))::integer, grant_ttl, 'permits', {schema}.moment());
  now := keys.at;
  IF keys.closed[1] OR weight > keys.weights[1] OR slots > keys.slots[1] OR keys.starts[1] < 1 OR weight > keys.maxima[1]
    OR slots > keys.concurrency[1] THEN
    wait := {schema}.refusal_wait(rule, state_grp, weight, slots, 0, 0, 0, NULL, now);
  END IF;
  -- Permits come after all jobs that wait for the limit.
  IF wait <> -1 AND rule.weight IS NOT NULL AND asked IS DISTINCT FROM 0 THEN
    wait := greatest(wait, {schema}.heavy_wait(limit_name, state_grp, '-Infinity', 0, 'Infinity', now, false));
  END IF;
  IF wait <> 0 THEN
    IF keys.takes_slots[1] AND NOT (keys.awaited[1] AND keys.starved[1]) AND NOT dry AND asked IS DISTINCT FROM 0 THEN
      PERFORM {schema}.await_release(ARRAY[limit_name], ARRAY[state_grp], 'permits', now);
    END IF;
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
  until := CASE WHEN keys.takes_slots[1] THEN 0 ELSE now + greatest(ttl_ms, keys.windows[1], 600000) END;
  IF keys.takes_slots[1] THEN
    INSERT INTO {schema}.slots (limit_id, token, slots, at, until)
      VALUES (charged.ids[1], number, slots, now, now + ttl_ms);
  ELSIF rule.by_group AND charged.entries[1] > 0 THEN
    -- A group that is idle would be forgotten before.
    INSERT INTO {schema}.slots (limit_id, token, slots, at, until) VALUES (charged.ids[1], number, 0, now, until);
  END IF;
  -- Old starts are deleted by the permits themselves, now and then: there may be nothing that sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(charged.ids[1], now);
  END IF;
  RETURN json_build_object('granted', true, 'held', keys.takes_slots[1],
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
  held {schema}.slots;
  holder {schema}.limits;
  kept {schema}.limits;
  ended boolean;
  rule {schema}.limit_rule;
  given {schema}.limit_given[] := '{}';
BEGIN
  PERFORM {schema}.begin_step();
  -- After a reset what is held is kept elsewhere, under the same name.
  SELECT l.name INTO limit_name FROM {schema}.limits l
    WHERE l.id = ANY (give_permit_{version}.limit_id || ARRAY(SELECT h.limit_id FROM {schema}.slots h WHERE h.token = number))
      AND (only_name IS NULL OR l.name = only_name) LIMIT 1;
  IF limit_name IS NULL OR number <= 0 OR number > (SELECT n.last_value FROM {schema}.numbers n) THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  SELECT * INTO held FROM {schema}.slots h WHERE h.token = number AND h.until > now;
  ended := held.token IS NULL AND EXISTS (SELECT FROM {schema}.starts s WHERE s.token = -number);
  IF (held.token IS NULL AND NOT ended AND now >= corrected_until) OR (ended AND how <> 'used') THEN
    RETURN '{}';
  END IF;
  SELECT * INTO kept FROM {schema}.limits l WHERE l.id = give_permit_{version}.limit_id;
  IF held.token IS NOT NULL THEN
    SELECT * INTO holder FROM {schema}.limits l WHERE l.id = held.limit_id;
  END IF;
  -- Of a rate the rule does not matter.
  IF only_name IS NULL THEN
    rule := {schema}.rule_named(limit_name);
  END IF;
  IF how <> 'used' THEN
    IF held.token IS NOT NULL THEN
      DELETE FROM {schema}.slots h WHERE h.limit_id = held.limit_id AND h.token = number;
      given := {schema}.release_slots(holder, rule, held.slots, ARRAY[held.at], now);
    END IF;
    IF kept.id IS NOT NULL AND {schema}.end_start(kept, number, taken_at, corrected_until, how = 'cancelled', now) THEN
      given := given || {schema}.window_freed(kept.name, kept.grp, now);
    END IF;
  ELSIF rule.max IS NOT NULL OR only_name IS NOT NULL THEN
    IF kept.id IS NOT NULL AND {schema}.settle_start(kept, number, reserved, corrected_until, used, now) THEN
      given := {schema}.window_freed(kept.name, kept.grp, now);
    END IF;
  ELSIF rule.name IS NOT NULL AND held.slots <> used THEN
    UPDATE {schema}.slots h SET slots = used WHERE h.limit_id = held.limit_id AND h.token = number;
    IF used < held.slots THEN
      given := {schema}.release_slots(holder, rule, held.slots - used, ARRAY[held.at], now);
    END IF;
  END IF;
  RETURN json_build_object('wakeAll', {schema}.wakes_waiters(given, now));
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
    FROM {schema}.slots h JOIN {schema}.limits l ON l.id = h.limit_id WHERE h.token = ANY (tokens);
  PERFORM {schema}.lock_limits(names);
  now := {schema}.moment();
  WITH renewed AS (
    UPDATE {schema}.slots h SET until = greatest(h.until, now + ttl_ms) WHERE h.token = ANY (tokens) AND h.until > now
    RETURNING h.token
  )
  SELECT coalesce(jsonb_agg(token), '[]') INTO kept FROM renewed;
  RETURN jsonb_build_object('kept', kept);
END
$$;

-- Records a start under a name if it fits into the window, and the instant set from outside has come; else changes nothing. Its token is
-- settled, cancelled and confirmed like that of a permit.
--
-- most, window_ms: at most so much in any window of this length. weight: what the start counts for; 0: only asks. grant_ttl: it is
-- made within so long of asking, and that is confirmed (confirm); NULL: it is made now.
CREATE OR REPLACE FUNCTION {schema}.rate_try_{version}(
  limit_name text, most float8, window_ms float8, weight float8, grant_ttl float8 DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  -- Before anything is waited for.
  arrived float8 := {schema}.wall();
  took float8;
  now float8;
  kept {schema}.limits;
  in_use float8;
  wait float8;
  number bigint;
BEGIN
  PERFORM {schema}.begin_step();
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  took := greatest(0, {schema}.wall() - arrived);
  now := {schema}.moment();
  SELECT * INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = '';
  IF kept.id IS NULL AND weight = 0 THEN
    RETURN '{"granted":true,"retryInMs":0}';
  END IF;
  IF kept.id IS NULL OR kept.longest < window_ms THEN
    kept := {schema}.open_limit(limit_name, window_ms, '', now);
  END IF;
  now := greatest(now, kept.newest);
  in_use := {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, window_ms, now);
  wait := {schema}.window_wait(kept.id, kept.forgotten_at, most, window_ms, weight, in_use, 0, NULL, now);
  wait := greatest(0, wait, kept.held_until - now);
  IF wait > 0 OR weight = 0 THEN
    RETURN json_build_object('granted', wait = 0, 'retryInMs', wait);
  END IF;
  number := nextval('{schema}.numbers');
  IF kept.window_ms IS DISTINCT FROM rate_try_{version}.window_ms THEN
    UPDATE {schema}.limits l SET window_ms = rate_try_{version}.window_ms, used = in_use, seen_at = now WHERE l.id = kept.id;
  END IF;
  PERFORM {schema}.record_start(kept.id, weight, now, number, ttl => grant_ttl, began => now - took);
  -- Old starts are deleted here: there may be no process that sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(kept.id, now);
  END IF;
  RETURN json_build_object('granted', true, 'retryInMs', 0, 'token', json_build_array(kept.id, number, weight));
END
$$;

-- Writes a start under a name, whether or not it fits. Under a name that no window has counted yet it is kept for an hour.
CREATE OR REPLACE FUNCTION {schema}.rate_record_{version}(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
BEGIN
  PERFORM {schema}.begin_step();
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  PERFORM {schema}.record_start(({schema}.open_limit(limit_name, 3600000, '', now)).id, 1, now);
  RETURN '{}';
END
$$;

-- How many starts under a name lie after an instant by the clock of the server. What is asked for is kept from now on, for
-- two months at the most.
CREATE OR REPLACE FUNCTION {schema}.rate_count_{version}(limit_name text, after float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
  begin_at float8 := after + {schema}.skew();
  kept record;
  age float8 := least(4294967296, now - begin_at);
BEGIN
  SELECT l.longest, (SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s WHERE s.limit_id = l.id AND s.at > begin_at) AS count
    INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = '';
  IF kept.longest < age THEN
    PERFORM {schema}.begin_step();
    PERFORM {schema}.lock_limits(ARRAY[limit_name]);
    now := {schema}.moment();
    PERFORM {schema}.open_limit(limit_name,
      least(4294967296, power(2, ceil(log(2, greatest(3600000, age)::numeric))))::float8, '', now);
  END IF;
  RETURN coalesce(kept.count, 0);
END
$$;

-- When, by the clock of the server, the oldest start but so many was, of those that are kept under this name; NULL: there are
-- no more than that.
CREATE OR REPLACE FUNCTION {schema}.rate_oldest_{version}(name text, skipped bigint) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT kept.at - {schema}.skew() FROM (
    SELECT s.at, s.seq, sum(s.n) OVER (ORDER BY s.at, s.seq) AS place
    FROM {schema}.limits l JOIN {schema}.starts s ON s.limit_id = l.id
    WHERE l.name = rate_oldest_{version}.name AND l.grp = '' AND s.n > 0 ORDER BY s.at, s.seq LIMIT skipped + 1
  ) kept WHERE kept.place > skipped ORDER BY kept.at, kept.seq LIMIT 1
$$;

-- For how long nothing starts under this name; NULL: there is no hold.
CREATE OR REPLACE FUNCTION {schema}.rate_paused_{version}(name text) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.held_until - {schema}.present() FROM {schema}.limits l
  WHERE l.name = rate_paused_{version}.name AND l.grp = '' AND l.held_until IS NOT NULL
$$;

-- Forgets all starts under a name; slots of a limit of that name stay in use.
CREATE OR REPLACE FUNCTION {schema}.rate_clear_{version}(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept bigint;
BEGIN
  PERFORM {schema}.begin_step();
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  SELECT l.id INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = '';
  IF kept IS NULL THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.reset_limit(kept, now);
  RETURN json_build_object('wakeAll', {schema}.wakes_waiters({schema}.window_freed(limit_name, '', now), now));
END
$$;

-- Nothing starts under a limit for so long, in one group; of a limit that is not by group, and of a rate, at all. It only ever extends.
-- What holds all groups of a limit is kept with its rule: write_rules.
--
-- is_rate: the name is that of a rate, for which there need not be a rule.
CREATE OR REPLACE FUNCTION {schema}.hold_limit_{version}(limit_name text, grp text, hold_ms float8, is_rate boolean DEFAULT false) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  now float8;
BEGIN
  PERFORM {schema}.begin_step();
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  IF NOT is_rate THEN
    rule := {schema}.rule_named(limit_name);
    IF rule.name IS NULL THEN
      RETURN '{"missing":true}';
    END IF;
    IF rule.by_group AND grp IS NULL THEN
      RETURN '{"again":true}';
    END IF;
  END IF;
  now := {schema}.moment();
  PERFORM {schema}.write_hold(limit_name, {schema}.state_grp(coalesce(rule.by_group, false), grp), now + hold_ms, now);
  RETURN '{}';
END
$$;

-- The service says how much is left of a limit until its window begins anew; of a limit by group: to this group, or to jobs
-- without one (NULL).
--
-- Of what it says about the same window the least holds, for some of what has started may not have reached it yet; a later window is
-- another one. What is said about one window differs by the time that its answers took, and by how the service rounds: a second.
CREATE OR REPLACE FUNCTION {schema}.set_remaining_{version}(limit_name text, grp text, remaining float8, reset_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  rule {schema}.limit_rule;
  kept {schema}.limits;
  now float8;
  until float8;
  wake_all boolean := false;
BEGIN
  PERFORM {schema}.begin_step();
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  rule := {schema}.rule_named(limit_name);
  IF rule.name IS NULL THEN
    RETURN '{"missing":true}';
  END IF;
  now := {schema}.moment();
  kept := {schema}.open_limit(limit_name, 0, {schema}.state_grp(rule.by_group, grp), now);
  until := now + reset_ms;
  IF now < kept.remaining_until AND until <= kept.remaining_until + 1500 THEN
    remaining := least(kept.remaining, remaining);
    until := greatest(kept.remaining_until, until);
  END IF;
  UPDATE {schema}.limits AS l SET remaining = set_remaining_{version}.remaining, remaining_until = until WHERE l.id = kept.id;
  IF remaining > kept.remaining THEN
    wake_all := {schema}.wakes_waiters({schema}.window_freed(limit_name, kept.grp, now), now);
  END IF;
  RETURN json_build_object('wakeAll', wake_all);
END
$$;

-- Nothing starts under this limit, for one group or for all, until then. It only ever extends.
CREATE OR REPLACE FUNCTION {schema}.write_hold(name text, grp text, until float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, held_until)
    VALUES (write_hold.name, write_hold.grp, 0, write_hold.now, until)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET held_until = greatest(l.held_until, excluded.held_until);
END
$$;
