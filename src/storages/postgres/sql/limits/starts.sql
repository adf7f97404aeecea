-- The log of starts that windows count, and its totals. The lock of the limit is held.

-- How much of a window is in use, without adding up the whole window every time: kept_used was in use at seen_at, in a window
-- of kept_ms. Whoever looks later takes off what has left since, along the index. Weights are whole numbers, so the sums are
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
  RETURN ARRAY[(NULL, name, grp, 0, 0, false)]::{schema}.limit_given[];
END
$$;

-- How much of a window is in use under what is kept here; nothing, where nothing is.
CREATE OR REPLACE FUNCTION {schema}.used_of(kept {schema}.limits, window_ms float8, now float8) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN {schema}.window_used(kept.id, kept.window_ms, kept.used, kept.seen_at, used_of.window_ms, now);
END
$$;

-- Writes down what is in use now, of a window of this length.
CREATE OR REPLACE FUNCTION {schema}.keep_total(id bigint, window_ms float8, used float8, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.limits AS l SET window_ms = keep_total.window_ms, used = keep_total.used, seen_at = keep_total.now
    WHERE l.id = keep_total.id;
END
$$;

-- Before starts are deleted that have left the window: what is taken off later is only what is still there.
CREATE OR REPLACE FUNCTION {schema}.settle_total(kept {schema}.limits, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF kept.window_ms IS NOT NULL THEN
    PERFORM {schema}.keep_total(kept.id, kept.window_ms, {schema}.used_of(kept, kept.window_ms, now), now);
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

-- Counts `n` starts that nobody can name, and answers where, and when.
CREATE OR REPLACE FUNCTION {schema}.record_starts(id bigint, n float8, now float8) RETURNS {schema}.start_place
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest float8;
  moment float8;
  place bigint;
BEGIN
  SELECT l.newest INTO newest FROM {schema}.limits AS l WHERE l.id = record_starts.id;
  moment := greatest(now, newest);
  place := {schema}.enter_starts(id, newest, n, 0, now);
  UPDATE {schema}.limits AS l SET newest = moment WHERE l.id = record_starts.id;
  PERFORM {schema}.shift_total(id, moment, n);
  RETURN (place, moment)::{schema}.start_place;
END
$$;

-- Counts a start under a token of its own. spent: what was charged for it before, and has left every window. until: so long it
-- is kept at least. ttl, began: it is to be confirmed, by its token (as charge_keys); NULL: it is not.
CREATE OR REPLACE FUNCTION {schema}.record_named(
  id bigint, n float8, token bigint, spent float8, until float8, now float8, ttl float8 DEFAULT NULL, began float8 DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  UPDATE {schema}.limits AS l SET newest = greatest(l.newest, record_named.now) WHERE l.id = record_named.id
    RETURNING l.newest INTO moment;
  INSERT INTO {schema}.starts (limit_id, at, since, n, token, spent, claim, began)
    VALUES (record_named.id, moment + coalesce(ttl, 0), greatest(moment, until), record_named.n, record_named.token,
      record_named.spent, CASE WHEN ttl IS NOT NULL THEN record_named.token END,
      CASE WHEN ttl IS NOT NULL THEN record_named.began END);
  PERFORM {schema}.shift_total(id, moment + coalesce(ttl, 0), n);
END
$$;

-- Counts `n` starts in the log, and answers where. Those less than `resolution` apart share a row, stamped with the latest of
-- them: never over. Below 0 nobody shares. newest: when the newest start was; no start is stamped before it. Neither the
-- total nor the newest start of the limit is written.
CREATE OR REPLACE FUNCTION {schema}.enter_starts(
  id bigint, newest float8, n float8, resolution float8, now float8
) RETURNS bigint
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8 := greatest(now, newest);
  place bigint;
BEGIN
  IF resolution >= 0 THEN
    place := {schema}.shared_entry(id, newest, resolution, moment);
  END IF;
  IF place IS NOT NULL THEN
    UPDATE {schema}.starts AS s SET at = moment, n = s.n + enter_starts.n WHERE s.seq = place;
  ELSE
    INSERT INTO {schema}.starts AS s (limit_id, at, since, n)
      VALUES (enter_starts.id, moment, moment, enter_starts.n) RETURNING s.seq INTO place;
  END IF;
  RETURN place;
END
$$;

-- The place in the log that starts of this instant share with the newest ones, which are less than `resolution` apart; NULL:
-- they get one of their own. Starts that are or were to be confirmed share nothing.
CREATE OR REPLACE FUNCTION {schema}.shared_entry(id bigint, newest float8, resolution float8, now float8) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
DECLARE
  latest record;
BEGIN
  IF now = newest OR now - newest < resolution THEN
    SELECT s.seq, s.since, s.token, s.began INTO latest FROM {schema}.starts AS s
      WHERE s.limit_id = shared_entry.id ORDER BY s.at DESC, s.seq DESC LIMIT 1;
    IF latest.token IS NULL AND latest.began IS NULL AND (now = latest.since OR now - latest.since < resolution) THEN
      RETURN latest.seq;
    END IF;
  END IF;
  RETURN NULL;
END
$$;

-- Where in the log a start of this instant was written down, that shares its place with others; NULL: it is not there any
-- more. The place may be somebody else's by now: then the time is another.
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

-- The starts that share this place in the log count for so much more, or less, together.
CREATE OR REPLACE FUNCTION {schema}.change_entry(entry {schema}.starts, by float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  after float8 := greatest(0, entry.n + by);
BEGIN
  UPDATE {schema}.starts AS s SET n = after WHERE s.seq = entry.seq;
  PERFORM {schema}.shift_total(entry.limit_id, entry.at, after - entry.n);
END
$$;

-- So much was charged for a start and has left every window: what it used beyond that counts from now on. The lock of the
-- name is held.
--
-- used: all that it used. gone: what was charged. until: so long it is kept at least.
CREATE OR REPLACE FUNCTION {schema}.charge_start(
  start {schema}.starts, used float8, gone float8, until float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  moment float8;
BEGIN
  IF used <= gone THEN
    RETURN;
  END IF;
  SELECT greatest(now, newest) INTO moment FROM {schema}.limits WHERE id = start.limit_id;
  PERFORM {schema}.change_start(start, moment, greatest(moment, until), used - gone, gone);
  PERFORM {schema}.charge_more(start.limit_id, used - gone);
END
$$;

-- A start in the log turns out to be another: when it was, what it counts for, what was charged for it before, and until
-- when it is kept. The lock of the name is held. What is charged at another instant has nothing to do with its call any more.
CREATE OR REPLACE FUNCTION {schema}.change_start(
  start {schema}.starts, to_at float8, to_since float8, to_n float8, to_spent float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts AS s SET at = to_at, since = to_since, n = to_n, spent = to_spent,
      claim = CASE WHEN to_at = s.at THEN s.claim END, began = CASE WHEN to_at = s.at THEN s.began END
    WHERE s.seq = start.seq;
  IF to_at > start.at THEN
    UPDATE {schema}.limits SET newest = to_at WHERE id = start.limit_id AND (newest IS NULL OR newest < to_at);
  END IF;
  PERFORM {schema}.shift_total(start.limit_id, start.at, -start.n);
  PERFORM {schema}.shift_total(start.limit_id, to_at, to_n);
END
$$;

-- A start under this limit turns out to have used so much more than was charged for it: so much less is left of what the
-- service said.
CREATE OR REPLACE FUNCTION {schema}.charge_more(id bigint, more float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF more > 0 THEN
    UPDATE {schema}.limits AS l SET told_left = greatest(0, l.told_left - more)
      WHERE l.id = charge_more.id AND l.told_left IS NOT NULL;
  END IF;
END
$$;

-- As if the start of this number had never been. False: there is none, or it was cancelled before. The lock of the name is
-- held; whoever calls tells those who wait for the window.
--
-- What was cancelled has been charged for more than anybody can ever settle for.
CREATE OR REPLACE FUNCTION {schema}.cancel_start(number bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF start.seq IS NULL OR start.spent = 1.7976931348623157e308::float8 THEN
    RETURN false;
  END IF;
  PERFORM {schema}.change_start(start, start.at, start.since, 0, 1.7976931348623157e308::float8);
  RETURN true;
END
$$;

-- The permit of this number has ended. Its start stays counted, and may be corrected while a window sees it; that it has
-- ended is told by the number below zero. The lock of the name is held.
--
-- id: the limit. started_at: when it was taken. until: until when it may be corrected, though it may have left every window.
CREATE OR REPLACE FUNCTION {schema}.end_start(id bigint, number bigint, started_at float8, until float8, now float8)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  UPDATE {schema}.starts SET token = -token, since = greatest(since, until) WHERE token = number;
  IF FOUND OR until <= now THEN
    RETURN;
  END IF;
  -- Its row is gone already, and it would pass for one that goes on.
  INSERT INTO {schema}.starts (limit_id, at, since, n, token) VALUES (id, started_at, until, 0, -number);
  UPDATE {schema}.limits l SET newest = started_at WHERE l.id = end_start.id AND (newest IS NULL OR newest < started_at);
END
$$;

-- What the start of this number really used: the last word holds. Inside the window its own entry changes; what becomes known
-- after it has expired is charged from now on, and what has expired is not given back. The lock of the name is held.
--
-- kept: the limit. reserved: what was charged at first.
CREATE OR REPLACE FUNCTION {schema}.settle_start(
  kept {schema}.limits, number bigint, reserved float8, used float8, now float8
) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  start {schema}.starts;
  counts float8;
BEGIN
  SELECT * INTO start FROM {schema}.starts WHERE token = number;
  IF start.seq IS NULL THEN
    IF used > reserved THEN
      PERFORM {schema}.record_named(kept.id, used - reserved, number, reserved, 0, now);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
  ELSIF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, start.since, counts, start.spent);
    PERFORM {schema}.charge_more(kept.id, counts - start.n);
  ELSE
    -- Of a start that has left the window only what it reserved is remembered, as if its row were gone already.
    PERFORM {schema}.charge_start(start, used, CASE WHEN start.spent = 0 THEN reserved ELSE start.spent + start.n END, 0, now);
  END IF;
END
$$;

-- Deletes starts that no window can see, a step of them; what a permit holds may still be corrected, and of others `since`
-- says until when. A little more than the longest window is kept: who comes to the very end of it finds it undisturbed. One that is
-- not confirmed is kept for an hour more: its call may turn out to have been made too late. newest: of those deleted.
CREATE OR REPLACE FUNCTION {schema}.forget_starts(
  kept {schema}.limits, now float8, OUT deleted integer, OUT newest float8
)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
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
  SELECT count(*), CASE WHEN kept.longest > 0 THEN max(gone.at) END INTO deleted, newest FROM gone;
END
$$;
