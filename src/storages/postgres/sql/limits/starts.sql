-- Limit states, one row for each limit or for each group of it; the log of starts that windows count, and its totals; confirmations of
-- when calls were made.
--
-- Locks: the lock of the limit is held. `confirm` takes that of the rules (shared) and those of the limits of the grants; `prune_limits`
-- takes none that it would have to wait for.

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
  IF EXISTS (SELECT FROM {schema}.slots AS h WHERE h.limit_id = reset_limit.id) THEN
    INSERT INTO {schema}.limits AS l (name, grp, longest, prune_at, held)
      VALUES (kept.name, kept.grp, kept.longest, now + kept.longest, kept.held) RETURNING l.id INTO anew;
    UPDATE {schema}.slots AS h SET limit_id = anew WHERE h.limit_id = reset_limit.id;
  END IF;
END
$$;

-- Forgets everything that is kept here, what is held as well.
CREATE OR REPLACE FUNCTION {schema}.drop_limit(id bigint) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  DELETE FROM {schema}.starts AS s WHERE s.limit_id = drop_limit.id;
  DELETE FROM {schema}.slots AS h WHERE h.limit_id = drop_limit.id;
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
  IF kept.held_until > now OR kept.remaining_until > now OR kept.failures <> 0 OR kept.open_until IS NOT NULL
    OR kept.held <> 0
  THEN
    RETURN false;
  END IF;
  rule := {schema}.rule_named(kept.name);
  every_ms := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).every_ms;
  IF now - kept.called_at < coalesce(every_ms, 0) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM {schema}.slots AS h WHERE h.limit_id = kept.id);
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
          AND NOT EXISTS (SELECT FROM {schema}.slots AS h WHERE h.token = s.token)))
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
    again := greatest(again, kept.newest + kept.longest, kept.held_until);
  ELSIF deleted > 0 THEN
    again := greatest(again, oldest + kept.longest + 1);
  ELSIF oldest IS NOT NULL OR NOT {schema}.is_idle(kept, now) THEN
    again := greatest(again, oldest + kept.longest + 1, kept.held_until);
  ELSE
    again := greatest(kept.forgotten_at, kept.held_until, kept.latest_at, 0) + 86400000 + kept.longest;
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

-- How much of a window is in use, without adding up the whole window every time: kept_used was in use at seen_at, in a window
-- of kept_ms. A later look subtracts what has left since, along the index. Weights are whole numbers, so the sums are
-- exact. The first bounds find the place in the index; the ages, by subtraction, are exact.
CREATE OR REPLACE FUNCTION {schema}.window_used(
  id bigint, kept_ms float8, kept_used float8, seen_at float8, window_ms float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  n float8;
BEGIN
  IF id IS NULL THEN
    RETURN 0;
  END IF;
  IF kept_ms IS DISTINCT FROM window_ms OR seen_at > now THEN
    SELECT sum(s.n) INTO n FROM {schema}.starts AS s
      WHERE s.limit_id = window_used.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms;
    RETURN coalesce(n, 0);
  END IF;
  -- Nothing has left that was not there, and nothing at all at the same instant.
  IF kept_used = 0 OR seen_at = now THEN
    RETURN kept_used;
  END IF;
  SELECT sum(s.n) INTO n FROM {schema}.starts AS s
    WHERE s.limit_id = window_used.id AND s.at > seen_at - window_ms - 1 AND seen_at - s.at < window_ms
      AND s.at < now - window_ms + 1 AND now - s.at >= window_ms;
  RETURN kept_used - coalesce(n, 0);
END
$$;

-- More of a window is available, or a hold has ended: lanes that waited for it may look again, and all waiting workers are to be woken.
-- grp: which state of the limit.
CREATE OR REPLACE FUNCTION {schema}.window_freed(name text, grp text, now float8) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  rule {schema}.limit_rule := {schema}.rule_named(name);
BEGIN
  IF rule.by_group OR rule.weight IS NOT NULL THEN
    PERFORM {schema}.unblock_lanes(name, ARRAY[grp], now);
  END IF;
  RETURN ARRAY[(NULL, name, grp, 0, 0)]::{schema}.limit_given[];
END
$$;

-- Writes down what is in use of the window now. It comes before starts are deleted that have left the window: what is subtracted later is
-- only what is still there.
CREATE OR REPLACE FUNCTION {schema}.settle_total(kept {schema}.limits, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF kept.window_ms IS NOT NULL THEN
    UPDATE {schema}.limits AS l SET seen_at = settle_total.now,
        used = {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, kept.window_ms, now)
      WHERE l.id = kept.id;
  END IF;
END
$$;

-- A start of this instant counts for so much more, or less: so does what is in use, if the start was counted in that.
CREATE OR REPLACE FUNCTION {schema}.shift_total(id bigint, at float8, by float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF by <> 0 THEN
    UPDATE {schema}.limits AS l SET used = l.used + by
      WHERE l.id = shift_total.id AND l.window_ms IS NOT NULL AND l.seen_at - shift_total.at < l.window_ms;
  END IF;
END
$$;

-- Counts a start, or `n` of them, and answers where in the log, and when: no start is stamped before the newest one. Starts of one instant
-- share a row; those that have a token, or are or were to be confirmed, share nothing.
--
-- token: the start has one of its own; NULL: none. spent: what was charged for it before, and has left every window. until: so long it is
-- kept at least. ttl, began: it is to be confirmed, by its token (as charge_keys); NULL: it is not.
CREATE OR REPLACE FUNCTION {schema}.record_start(
  id bigint, n float8, now float8, token bigint DEFAULT NULL, spent float8 DEFAULT 0, until float8 DEFAULT NULL, ttl float8 DEFAULT NULL,
  began float8 DEFAULT NULL, OUT place bigint, OUT at float8
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET newest = greatest(l.newest, record_start.now) WHERE l.id = record_start.id RETURNING l.newest INTO at;
  IF token IS NULL THEN
    SELECT s.seq INTO place FROM (
      SELECT * FROM {schema}.starts AS o WHERE o.limit_id = record_start.id ORDER BY o.at DESC, o.seq DESC LIMIT 1) AS s
      WHERE s.token IS NULL AND s.began IS NULL AND s.since >= record_start.at;
  END IF;
  IF place IS NOT NULL THEN
    UPDATE {schema}.starts AS s SET at = record_start.at, n = s.n + record_start.n WHERE s.seq = place;
  ELSE
    INSERT INTO {schema}.starts AS s (limit_id, at, since, n, token, spent, claim, began)
      VALUES (record_start.id, record_start.at + coalesce(ttl, 0), greatest(record_start.at, until), record_start.n, record_start.token,
        record_start.spent, CASE WHEN ttl IS NOT NULL THEN record_start.token END, CASE WHEN ttl IS NOT NULL THEN record_start.began END)
      RETURNING s.seq INTO place;
  END IF;
  PERFORM {schema}.shift_total(id, at + coalesce(ttl, 0), n);
END
$$;

-- Where in the log a start of this instant was written down, that shares its place with others; NULL: it is not there any
-- more. The place may be another start's by now: then the time is another.
CREATE OR REPLACE FUNCTION {schema}.find_entry(limit_id bigint, entry bigint, at float8) RETURNS {schema}.starts
LANGUAGE plpgsql STABLE AS $$
DECLARE
  found {schema}.starts;
BEGIN
  IF entry <> 0 THEN
    SELECT * INTO found FROM {schema}.starts AS s
      WHERE s.seq = entry AND s.limit_id = find_entry.limit_id AND s.since <= find_entry.at AND s.at >= find_entry.at
        AND s.token IS NULL;
  END IF;
  RETURN found;
END
$$;

-- A start in the log turns out to be another: when it was, what it counts for, what was charged for it before, and until
-- when it is kept. What it counts for more is charged. A start that is charged at another instant is independent of its call.
CREATE OR REPLACE FUNCTION {schema}.change_start(
  start {schema}.starts, to_at float8, to_since float8, to_n float8, to_spent float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts AS s SET at = to_at, since = to_since, n = to_n, spent = to_spent,
      claim = CASE WHEN to_at = s.at THEN s.claim END, began = CASE WHEN to_at = s.at THEN s.began END
    WHERE s.seq = start.seq;
  IF to_at = start.at THEN
    PERFORM {schema}.shift_total(start.limit_id, to_at, to_n - start.n);
    PERFORM {schema}.charge_more(start.limit_id, to_n - start.n);
    RETURN;
  END IF;
  UPDATE {schema}.limits SET newest = to_at WHERE id = start.limit_id AND (newest IS NULL OR newest < to_at);
  PERFORM {schema}.shift_total(start.limit_id, start.at, -start.n);
  PERFORM {schema}.shift_total(start.limit_id, to_at, to_n);
  PERFORM {schema}.charge_more(start.limit_id, to_n);
END
$$;

-- A start under this limit turns out to have used so much more than was charged for it: so much less is left of what the
-- service said.
CREATE OR REPLACE FUNCTION {schema}.charge_more(id bigint, more float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF more > 0 THEN
    UPDATE {schema}.limits AS l SET remaining = greatest(0, l.remaining - more)
      WHERE l.id = charge_more.id AND l.remaining IS NOT NULL;
  END IF;
END
$$;

-- The start of this number has ended, or never was (`cancels`). One that has ended stays counted, and may be corrected while a window sees
-- it; the number below zero says that it has ended. What was cancelled has been charged for more than any settle can say. Answers whether
-- more of the window is available.
--
-- started_at: when it was taken. until: until when it may be corrected, though it may have left every window; NULL: it is a start under a
-- rate, which does not end.
CREATE OR REPLACE FUNCTION {schema}.end_start(
  kept {schema}.limits, number bigint, started_at float8, until float8, cancels boolean, now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  cancelled CONSTANT float8 := 1.7976931348623157e308;
  start {schema}.starts;
  freed boolean := false;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF cancels AND start.spent < cancelled THEN
    PERFORM {schema}.change_start(start, start.at, start.since, 0, cancelled);
    freed := true;
  END IF;
  IF until IS NULL THEN
    RETURN freed;
  END IF;
  IF cancels AND (freed OR kept.window_ms IS NULL) THEN
    PERFORM {schema}.cancel_latest(kept.id, started_at);
    freed := true;
  END IF;
  IF start.seq IS NOT NULL THEN
    UPDATE {schema}.starts AS s SET token = -number, since = greatest(s.since, until) WHERE s.seq = start.seq;
  ELSIF until > now THEN
    -- Its row is deleted already, and it would pass for one that goes on.
    INSERT INTO {schema}.starts (limit_id, at, since, n, token) VALUES (kept.id, started_at, until, 0, -number);
    UPDATE {schema}.limits AS l SET newest = started_at WHERE l.id = kept.id AND (l.newest IS NULL OR l.newest < started_at);
  END IF;
  RETURN freed;
END
$$;

-- What the start of this number really used: the last word holds. Inside the window its own entry changes; what becomes known
-- after it has expired is charged from now on, and what has expired is not given back. Answers whether more of the window is available.
--
-- kept: the limit. reserved: what was charged at first. until: for so long at least all that was charged for it is remembered; NULL: once
-- it has left the window only `reserved` is, whether or not its row is deleted already.
CREATE OR REPLACE FUNCTION {schema}.settle_start(
  kept {schema}.limits, number bigint, reserved float8, until float8, used float8, now float8
) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
  counts float8;
  gone float8;
  moment float8 := greatest(now, kept.newest);
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token IN (number, -number) ORDER BY token DESC LIMIT 1;
  IF start.seq IS NULL THEN
    IF used > reserved THEN
      PERFORM {schema}.record_start(kept.id, used - reserved, now, number, reserved, until);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
    RETURN false;
  END IF;
  IF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, greatest(start.since, until), counts, start.spent);
    RETURN counts < start.n;
  END IF;
  gone := CASE WHEN until IS NULL AND start.spent = 0 THEN reserved ELSE start.spent + start.n END;
  IF start.token > 0 AND used > gone THEN
    PERFORM {schema}.change_start(start, moment, greatest(moment, until), used - gone, gone);
  END IF;
  RETURN false;
END
$$;

-- Says when calls were made that grants were given for (storage/grants.ts). It causes no wake-up: waiting claims know when to look again.
--
-- said: {grants, called, name}: two lists of one length; name: the rate that the grants are of, and no others count; NULL: any limit.
CREATE OR REPLACE FUNCTION {schema}.confirm_{version}(said json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off AS $$
DECLARE
  q record;
BEGIN
  PERFORM {schema}.begin_step();
  SELECT r.grants, r.called, r.name INTO q FROM json_to_record(said) AS r (grants bigint[], called float8[], name text);
  PERFORM {schema}.lock_limits(CASE WHEN q.name IS NULL THEN {schema}.limits_of_grants(q.grants) ELSE ARRAY[q.name] END);
  PERFORM {schema}.confirm_starts(q.grants, q.called, q.name);
  RETURN '{}';
END
$$;

-- Grants were called, the last of their calls so long after their requests: their starts count from then. The locks of all names that
-- they count under are held. Grants that are unknown, or were confirmed before, change nothing.
--
-- What is in use of a window is a total up to seen_at: it is corrected where a start was part of it and has left it, or the other way
-- round; almost always neither is so. limits.newest stays: it says when starts were granted.
--
-- grants, called: two lists of one length. only_name: only starts of this limit; NULL: of all.
CREATE OR REPLACE FUNCTION {schema}.confirm_starts(grants bigint[], called float8[], only_name text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  -- No call was made after it was confirmed, whatever the clocks of its caller say.
  latest CONSTANT float8 := {schema}.present();
  start record;
BEGIN
  FOR start IN
    UPDATE {schema}.starts AS s SET claim = NULL, at = CASE WHEN c.called_at > c.at THEN c.called_at
        ELSE least(c.at, greatest(c.called_at, c.granted_at)) END
      FROM (
        SELECT s.seq, s.at, s.began, least(s.began + called[array_position(grants, s.claim)], latest) AS called_at,
          -- No call comes before its grant. Of a start that a token names `since` says something else.
          CASE WHEN s.token IS NULL THEN s.since END AS granted_at,
          l.name, l.seen_at, l.window_ms, l.called_by = s.claim AS is_latest, s.n = 0 AND l.longest = 0 AS is_mark
        FROM {schema}.starts AS s JOIN {schema}.limits AS l ON l.id = s.limit_id
        -- Limits are looked up by the starts. A name among these conditions would make the planner read all limits.
        WHERE s.claim = ANY (grants) OFFSET 0
      ) AS c WHERE s.seq = c.seq AND (only_name IS NULL OR c.name = only_name)
      RETURNING s.seq, s.limit_id, s.n, c.at AS before, s.at AS after, c.called_at, c.called_at - c.began AS called_in,
        c.is_latest, c.is_mark, (c.seen_at - c.at < c.window_ms) <> (c.seen_at - s.at < c.window_ms) AS moves
  LOOP
    IF start.moves THEN
      PERFORM {schema}.shift_total(start.limit_id, start.before, -start.n);
      PERFORM {schema}.shift_total(start.limit_id, start.after, start.n);
    END IF;
    IF start.after > start.before THEN
      -- Another start may have come after it.
      UPDATE {schema}.limits AS l SET called_at = start.called_at
        WHERE l.id = start.limit_id AND l.called_at < start.called_at;
    END IF;
    IF start.is_latest THEN
      UPDATE {schema}.limits AS l
        SET called_at = greatest(start.called_at, l.latest_at), called_by = NULL, called_in = start.called_in
        WHERE l.id = start.limit_id;
    END IF;
    IF start.is_mark THEN
      DELETE FROM {schema}.starts AS s WHERE s.seq = start.seq;
    END IF;
  END LOOP;
END
$$;

-- When it is worth a call of its own to confirm starts that count under windows, the shortest of which is this: confirmInMs in
-- storage/grants.ts. NULL: they only count in a log that others look at.
CREATE OR REPLACE FUNCTION {schema}.confirm_in(shortest float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT least(shortest / 2, 1000)
$$;

-- What is to be confirmed of the claim that drew this number, as opened_claim says it; NULL: nothing, or not any more. For a claim
-- whose answer got lost.
CREATE OR REPLACE FUNCTION {schema}.grant_of(number bigint) RETURNS json
LANGUAGE sql STABLE AS $$
  SELECT json_build_array(number, {schema}.confirm_in(min(least(l.window_ms, (r.fields).window_ms, (r.fields).every_ms))))
  FROM {schema}.starts s JOIN {schema}.limits l ON l.id = s.limit_id LEFT JOIN {schema}.rules r ON r.name = l.name
  WHERE s.claim = number HAVING count(*) > 0
$$;

-- The names of the limits that these grants count under and are not confirmed for. Nothing is added to a grant that was answered.
CREATE OR REPLACE FUNCTION {schema}.limits_of_grants(grants bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN ARRAY(SELECT DISTINCT l.name FROM {schema}.starts AS s JOIN {schema}.limits AS l ON l.id = s.limit_id
    WHERE s.claim = ANY (grants));
END
$$;
