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

-- Counts `n` starts without a token, and answers where in the log, and when. Starts of one instant share a row; those that are or were to
-- be confirmed share nothing. No start is stamped before the newest one.
CREATE OR REPLACE FUNCTION {schema}.record_starts(id bigint, n float8, now float8, OUT place bigint, OUT at float8)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  newest float8 := (SELECT l.newest FROM {schema}.limits AS l WHERE l.id = record_starts.id);
BEGIN
  at := greatest(now, newest);
  IF at = newest THEN
    SELECT s.seq INTO place FROM (
      SELECT * FROM {schema}.starts AS o WHERE o.limit_id = record_starts.id ORDER BY o.at DESC, o.seq DESC LIMIT 1) AS s
      WHERE s.token IS NULL AND s.began IS NULL AND s.since >= record_starts.at;
  END IF;
  IF place IS NOT NULL THEN
    UPDATE {schema}.starts AS s SET at = record_starts.at, n = s.n + record_starts.n WHERE s.seq = place;
  ELSE
    INSERT INTO {schema}.starts AS s (limit_id, at, since, n)
      VALUES (record_starts.id, record_starts.at, record_starts.at, record_starts.n) RETURNING s.seq INTO place;
  END IF;
  UPDATE {schema}.limits AS l SET newest = record_starts.at WHERE l.id = record_starts.id;
  PERFORM {schema}.shift_total(id, at, n);
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

-- A start in the log turns out to be another: when it was, what it counts for, what was charged for it before, and until
-- when it is kept. A start that is charged at another instant is independent of its call.
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
    RETURN;
  END IF;
  UPDATE {schema}.limits SET newest = to_at WHERE id = start.limit_id AND (newest IS NULL OR newest < to_at);
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

-- The start of this number has ended, or never was (`cancels`). One that has ended stays counted, and may be corrected while a window sees
-- it; the number below zero says that it has ended. What was cancelled has been charged for more than any settle can say. Answers whether
-- more of the window is available.
--
-- started_at: when it was taken. until: until when it may be corrected, though it may have left every window; NULL: at any time.
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
  IF cancels THEN
    freed := kept.window_ms IS NULL OR coalesce(start.spent < cancelled, false);
    IF start.spent < cancelled THEN
      PERFORM {schema}.change_start(start, start.at, start.since, 0, cancelled);
    END IF;
    IF freed THEN
      PERFORM {schema}.cancel_latest(kept.id, started_at);
    END IF;
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
      PERFORM {schema}.record_named(kept.id, used - reserved, number, reserved, until, now);
      PERFORM {schema}.charge_more(kept.id, used - reserved);
    END IF;
    RETURN false;
  END IF;
  IF now - start.at < kept.longest THEN
    counts := greatest(0, used - start.spent);
    PERFORM {schema}.change_start(start, start.at, greatest(start.since, until), counts, start.spent);
    PERFORM {schema}.charge_more(kept.id, counts - start.n);
    RETURN counts < start.n;
  END IF;
  gone := CASE WHEN until IS NULL AND start.spent = 0 THEN reserved ELSE start.spent + start.n END;
  IF start.token > 0 AND used > gone THEN
    PERFORM {schema}.change_start(start, moment, greatest(moment, until), used - gone, gone);
    PERFORM {schema}.charge_more(kept.id, used - gone);
  END IF;
  RETURN false;
END
$$;
