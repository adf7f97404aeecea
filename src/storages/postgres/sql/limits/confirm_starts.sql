-- Grants were called, the last of their calls so long after their requests: their starts count from then. The locks of all names that
-- they count under are held. Grants that are unknown, or were confirmed before, change nothing.
--
-- What is in use of a window is a total up to seen_at: a start that was counted in it is not put before what has left it then, so that
-- the total stays right. A start that was called later than it was granted for is put later, and the total corrected. limits.newest
-- stays: it says when starts were granted.
--
-- grants, called: two lists of one length. only_limit: only starts of this limit; NULL: of all.
CREATE OR REPLACE FUNCTION {schema}.confirm_starts(grants bigint[], called float8[], only_limit bigint DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  found record;
  late record;
BEGIN
  WITH confirmed AS (
    UPDATE {schema}.starts AS s SET
      at = CASE WHEN s.began + c.called > s.at THEN s.at
        -- No call comes before its grant; `since` of one that a token names says something else.
        ELSE least(s.at, greatest(s.began + c.called, CASE WHEN s.token IS NULL THEN s.since END, l.seen_at - l.window_ms + 1)) END,
      claim = CASE WHEN s.began + c.called > s.at THEN s.claim END
    FROM unnest(confirm_starts.grants, confirm_starts.called) AS c (claim, called), {schema}.limits AS l
    WHERE s.claim = c.claim AND l.id = s.limit_id AND (only_limit IS NULL OR s.limit_id = only_limit)
    RETURNING s.seq, s.limit_id, s.began + c.called AS called_at, c.called, s.claim IS NOT NULL AS is_late,
      coalesce(l.called_by = c.claim, false) AS is_spaced, s.n = 0 AND l.longest = 0 AS is_mark
  )
  SELECT bool_or(c.is_late) AS late, array_agg(c.seq) FILTER (WHERE c.is_mark) AS marks,
      array_agg(c.limit_id) FILTER (WHERE c.is_spaced) AS spaced,
      array_agg(c.called_at) FILTER (WHERE c.is_spaced) AS called_ats, array_agg(c.called) FILTER (WHERE c.is_spaced) AS called
    INTO found FROM confirmed AS c;
  IF found.late THEN
    FOR late IN
      SELECT s.seq, s.limit_id, s.n, s.at AS before, s.began + c.called AS after
        FROM unnest(confirm_starts.grants, confirm_starts.called) AS c (claim, called) JOIN {schema}.starts AS s ON s.claim = c.claim
        WHERE only_limit IS NULL OR s.limit_id = only_limit
    LOOP
      UPDATE {schema}.starts AS s SET at = late.after, claim = NULL WHERE s.seq = late.seq;
      PERFORM {schema}.shift_total(late.limit_id, late.before, -late.n);
      PERFORM {schema}.shift_total(late.limit_id, late.after, late.n);
    END LOOP;
  END IF;
  IF found.spaced IS NOT NULL THEN
    UPDATE {schema}.limits AS l SET called_at = greatest(c.called_at, l.latest_at), called_by = NULL, called_in = c.called
      FROM unnest(found.spaced, found.called_ats, found.called) AS c (id, called_at, called) WHERE l.id = c.id;
  END IF;
  IF found.marks IS NOT NULL THEN
    DELETE FROM {schema}.starts AS s WHERE s.seq = ANY (found.marks);
  END IF;
END
$$;
