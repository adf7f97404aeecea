-- Grants were called, the last of their calls so long after their requests: their starts count from then. The locks of all names that
-- they count under are held. Grants that are unknown, or were confirmed before, change nothing.
--
-- What is in use of a window is a total up to seen_at: it is corrected where a start was part of it and has left it, or the other way
-- round; almost always neither is so. limits.newest stays: it says when starts were granted.
--
-- grants, called: two lists of one length. only_limit: only starts of this limit; NULL: of all.
CREATE OR REPLACE FUNCTION {schema}.confirm_starts(grants bigint[], called float8[], only_limit bigint DEFAULT NULL) RETURNS void
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
          l.seen_at, l.window_ms, l.called_by = s.claim AS is_latest, s.n = 0 AND l.longest = 0 AS is_mark
        FROM {schema}.starts AS s JOIN {schema}.limits AS l ON l.id = s.limit_id
        WHERE s.claim = ANY (grants) AND (only_limit IS NULL OR s.limit_id = only_limit) OFFSET 0
      ) AS c WHERE s.seq = c.seq
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
