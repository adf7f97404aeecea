-- Limit states: one row for each limit, or for each group of it.

-- What is kept under this name; from now on its starts are kept for at least so long.
CREATE OR REPLACE FUNCTION {schema}.open_limit(name text, longest float8, grp text, now float8) RETURNS {schema}.limits
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
BEGIN
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.name = open_limit.name AND l.grp = open_limit.grp;
  IF kept.longest >= open_limit.longest THEN
    RETURN kept;
  END IF;
  INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at)
    VALUES (open_limit.name, open_limit.grp, open_limit.longest, now + open_limit.longest)
    ON CONFLICT ON CONSTRAINT limits_name_grp_key DO UPDATE SET longest = greatest(l.longest, excluded.longest)
    RETURNING * INTO kept;
  RETURN kept;
END
$$;

-- Forgets what was counted. What is held stays held, under another id: whatever names the old one names nothing then.
CREATE OR REPLACE FUNCTION {schema}.reset_limit(id bigint, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
  anew bigint;
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = reset_limit.id;
  DELETE FROM {schema}.limits AS l WHERE l.id = reset_limit.id RETURNING * INTO kept;
  IF EXISTS (SELECT FROM {schema}.holds AS h WHERE h.limit_id = reset_limit.id) THEN
    INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, held)
      VALUES (kept.name, kept.grp, kept.longest, now + kept.longest, kept.held) RETURNING l.id INTO anew;
    UPDATE {schema}.holds AS h SET limit_id = anew WHERE h.limit_id = reset_limit.id;
  END IF;
END
$$;

-- Forgets everything that is kept here, what is held as well.
CREATE OR REPLACE FUNCTION {schema}.drop_limit(id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = drop_limit.id;
  DELETE FROM {schema}.holds AS h WHERE h.limit_id = drop_limit.id;
  DELETE FROM {schema}.limits AS l WHERE l.id = drop_limit.id;
END
$$;

-- Is nothing held of a limit, and nothing in its way?
CREATE OR REPLACE FUNCTION {schema}.is_idle(kept {schema}.limits, now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rule {schema}.limit_rule;
  every_ms float8;
BEGIN
  IF kept.pause_until > now OR kept.told_until > now OR kept.failures <> 0 OR kept.open_until IS NOT NULL
    OR kept.held <> 0
  THEN
    RETURN false;
  END IF;
  rule := {schema}.rule_named(kept.name);
  every_ms := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).every_ms;
  IF now - kept.called_at < coalesce(every_ms, 0) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM {schema}.holds AS h WHERE h.limit_id = kept.id);
END
$$;

-- Deletes starts that no window can see, and names that are not in use, a step of them. Names that other steps have locked
-- are left for another time: this waits for nothing. It is the last thing that a step does, for it may write down the time. deleted: how
-- many rows. more: there may be more.
CREATE OR REPLACE FUNCTION {schema}.prune_limits(now float8, OUT deleted integer, OUT more boolean)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  ripe record;
  looked integer := 0;
BEGIN
  deleted := 0;
  FOR ripe IN SELECT l.id, l.name FROM {schema}.limits AS l WHERE l.prune_at <= now ORDER BY l.prune_at LIMIT 100 LOOP
    IF deleted >= 500 THEN
      more := true;
      RETURN;
    END IF;
    CONTINUE WHEN NOT pg_try_advisory_xact_lock({schema}.lock_key('limit', ripe.name));
    deleted := deleted + {schema}.prune_limit(ripe.id, now);
    looked := looked + 1;
  END LOOP;
  more := looked = 100;
END
$$;

-- Deletes what need not be kept of one limit, and the limit itself where it is not in use. Answers how many rows. There may be
-- very many groups: one that does not count any more is deleted at once, and whole. A name is remembered for a day: a longer window is
-- hardly asked for after that.
--
-- Of starts those are deleted that no window can see. What a permit holds may still be corrected, and of others `since` says until when. A
-- little more than the longest window is kept: a step that looks at the very end of it finds it undisturbed. A start that is not
-- confirmed is kept for an hour more: its call may turn out to have been made too late.
CREATE OR REPLACE FUNCTION {schema}.prune_limit(id bigint, now float8) RETURNS integer
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kept {schema}.limits;
  deleted integer;
  forgotten float8;
  oldest float8;
  again float8;
BEGIN
  SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = prune_limit.id;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  IF kept.grp <> '' AND (kept.newest IS NULL OR now - kept.newest >= kept.longest) AND {schema}.is_idle(kept, now)
    -- Starts may have been called later than they were granted, or be called yet.
    AND NOT EXISTS (SELECT FROM {schema}.starts AS s WHERE s.limit_id = kept.id AND s.at > now - kept.longest)
    AND NOT EXISTS (SELECT FROM {schema}.starts AS s
      WHERE s.limit_id = kept.id AND s.claim IS NOT NULL AND s.at > now - kept.longest - 3600000)
  THEN
    -- Once the time is written down, no clock is before it: a later step does not miss what was deleted. Where another step is writing
    -- down the time, the group is left for another turn.
    PERFORM FROM {schema}.meta FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
      RETURN 0;
    END IF;
    UPDATE {schema}.meta SET last = prune_limit.now WHERE last < prune_limit.now;
    DELETE FROM {schema}.starts AS s WHERE s.limit_id = kept.id;
    GET DIAGNOSTICS deleted = ROW_COUNT;
    DELETE FROM {schema}.limits AS l WHERE l.id = kept.id;
    RETURN deleted + 1;
  END IF;
  PERFORM {schema}.settle_total(kept, now);
  WITH old AS (
    SELECT s.seq FROM {schema}.starts AS s
      WHERE s.limit_id = kept.id AND s.at <= now - kept.longest - 1
        AND (s.claim IS NULL OR s.at <= now - kept.longest - 3600000)
        AND (s.token IS NULL OR (s.since <= now
          AND NOT EXISTS (SELECT FROM {schema}.holds AS h WHERE h.token = s.token)))
      ORDER BY s.at, s.seq LIMIT 500
  ), gone AS (
    DELETE FROM {schema}.starts AS s WHERE s.seq = ANY (ARRAY(SELECT old.seq FROM old)) RETURNING s.at
  )
  -- Without a window nothing was counted.
  SELECT count(*), CASE WHEN kept.longest > 0 THEN max(gone.at) END INTO deleted, forgotten FROM gone;
  SELECT s.at INTO oldest FROM {schema}.starts AS s WHERE s.limit_id = kept.id ORDER BY s.at, s.seq LIMIT 1;
  -- Busy names are looked at now and then, not at every turn.
  again := now + 1000 + kept.longest / 10;
  IF kept.grp <> '' THEN
    again := greatest(again, kept.newest + kept.longest, kept.pause_until);
  ELSIF deleted > 0 THEN
    again := greatest(again, oldest + kept.longest + 1);
  ELSIF oldest IS NOT NULL OR NOT {schema}.is_idle(kept, now) THEN
    again := greatest(again, oldest + kept.longest + 1, kept.pause_until);
  ELSE
    again := greatest(kept.forgotten_at, kept.pause_until, kept.latest_at, 0) + 86400000 + kept.longest;
    IF again <= now THEN
      DELETE FROM {schema}.limits AS l WHERE l.id = kept.id;
      RETURN 1;
    END IF;
  END IF;
  UPDATE {schema}.limits AS l
    SET prune_at = CASE WHEN deleted = 500 THEN prune_limit.now ELSE again END,
      forgotten_at = greatest(l.forgotten_at, forgotten)
    WHERE l.id = kept.id;
  RETURN deleted;
END
$$;

-- Keeps what was changed about limits, the latest 100 of each and 10,000 of all, and lets listeners hear it, if there are any.
-- The answer: are there?
CREATE OR REPLACE FUNCTION {schema}.keep_history(changes jsonb, now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limit_changes (name, at_wall, change)
    SELECT c.value ->> 'limit', now - {schema}.skew(), c.value FROM jsonb_array_elements(changes) WITH ORDINALITY AS c ORDER BY c.ordinality;
  DELETE FROM {schema}.limit_changes l USING (
    SELECT n.name, (SELECT o.seq FROM {schema}.limit_changes o WHERE o.name = n.name ORDER BY o.seq DESC LIMIT 1 OFFSET 100) AS seq
    FROM (SELECT DISTINCT c.value ->> 'limit' AS name FROM jsonb_array_elements(changes) AS c) AS n) AS old
    WHERE l.name = old.name AND l.seq <= old.seq;
  DELETE FROM {schema}.limit_changes WHERE seq <= (SELECT max(seq) FROM {schema}.limit_changes) - 10000;
  IF NOT {schema}.events_wanted(now) THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}.events (at, event)
    SELECT now, ('{"event":"limit-changed","queue":null}'::jsonb || c.value)::text
    FROM jsonb_array_elements(changes) WITH ORDINALITY AS c ORDER BY c.ordinality;
  RETURN true;
END
$$;

-- What was changed about limits, the newest first.
--
-- wanted: one limit, or NULL.
CREATE OR REPLACE FUNCTION {schema}.read_history_{version}(wanted text, most int) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp AS $$
  SELECT coalesce(json_agg(l.change || jsonb_build_object('at', l.at_wall) ORDER BY l.seq DESC), '[]')::text FROM (
    SELECT * FROM {schema}.limit_changes WHERE wanted IS NULL OR name = wanted ORDER BY seq DESC LIMIT most) AS l
$$;
