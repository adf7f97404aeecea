-- Rates: windows of limiters that are no limits of jobs.
--
-- Locks: the rules (shared), the limit of the rate.

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
  wait := greatest(0, wait, kept.pause_until - now);
  IF wait > 0 OR weight = 0 THEN
    RETURN json_build_object('granted', wait = 0, 'retryInMs', wait);
  END IF;
  number := nextval('{schema}.numbers');
  IF kept.window_ms IS DISTINCT FROM rate_try_{version}.window_ms THEN
    UPDATE {schema}.limits l SET window_ms = rate_try_{version}.window_ms, used = in_use, seen_at = now WHERE l.id = kept.id;
  END IF;
  PERFORM {schema}.record_named(kept.id, weight, number, 0, 0, now, grant_ttl, now - took);
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
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  PERFORM {schema}.record_starts(({schema}.open_limit(limit_name, 3600000, '', now)).id, 1, now);
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
    PERFORM {schema}.begin_step(false);
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

-- Holds a name for so long from now: nothing starts under it. A hold is only ever extended.
CREATE OR REPLACE FUNCTION {schema}.rate_pause_{version}(limit_name text, pause_ms float8) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  PERFORM {schema}.write_hold(limit_name, '', now + pause_ms, now);
  RETURN '{}';
END
$$;

-- For how long nothing starts under this name; NULL: there is no hold.
CREATE OR REPLACE FUNCTION {schema}.rate_paused_{version}(name text) RETURNS float8
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT l.pause_until - {schema}.present() FROM {schema}.limits l
  WHERE l.name = rate_paused_{version}.name AND l.grp = '' AND l.pause_until IS NOT NULL
$$;

-- Forgets all starts under a name; slots of a limit of that name stay in use.
CREATE OR REPLACE FUNCTION {schema}.rate_clear_{version}(limit_name text) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8;
  kept bigint;
BEGIN
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  now := {schema}.moment();
  SELECT l.id INTO kept FROM {schema}.limits l WHERE l.name = limit_name AND l.grp = '';
  IF kept IS NULL THEN
    RETURN '{}';
  END IF;
  PERFORM {schema}.reset_limit(kept, now);
  RETURN json_build_object('wakeAll', {schema}.is_earlier({schema}.window_freed(limit_name, '', now), now));
END
$$;
