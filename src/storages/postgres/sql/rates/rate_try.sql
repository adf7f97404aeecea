-- Records a start under a name if it fits into the window, and the instant set from outside has come; else changes nothing.
--
-- most, window_ms: at most so much in any window of this length. weight: what the start counts for; 0: only asks. grant_ttl: it is
-- made within so long of asking, and that is confirmed (rate_confirm); NULL: it is made now.
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
  PERFORM {schema}.begin_step(false);
  PERFORM {schema}.lock_limits(ARRAY[limit_name]);
  took := greatest(0, {schema}.wall() - arrived);
  now := {schema}.moment();
  kept := {schema}.find_limit(limit_name, '');
  IF kept.id IS NULL AND weight = 0 THEN
    RETURN '{"granted":true,"retryInMs":0}';
  END IF;
  IF kept.id IS NULL OR kept.longest < window_ms THEN
    kept := {schema}.open_limit(limit_name, window_ms, '', now);
  END IF;
  now := greatest(now, kept.newest);
  in_use := {schema}.used_of(kept, window_ms, now);
  wait := {schema}.window_wait(kept.id, kept.forgotten_at, most, window_ms, weight, in_use, 0, NULL, now);
  wait := greatest(0, wait, kept.pause_until - now);
  IF wait > 0 OR weight = 0 THEN
    RETURN json_build_object('granted', wait = 0, 'retryInMs', wait);
  END IF;
  number := nextval('{schema}.numbers');
  IF kept.window_ms IS DISTINCT FROM rate_try_{version}.window_ms THEN
    PERFORM {schema}.keep_total(kept.id, rate_try_{version}.window_ms, in_use, now);
  END IF;
  PERFORM {schema}.record_named(kept.id, weight, number, 0, 0, now, grant_ttl, now - took);
  -- Old starts are deleted here: there may be no process that sweeps.
  IF (number / 10000) % 64 = 63 THEN
    PERFORM {schema}.prune_limit(kept.id, now);
  END IF;
  RETURN json_build_object('granted', true, 'retryInMs', 0, 'token', json_build_array(kept.id, number, weight));
END
$$;
