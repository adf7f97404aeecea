-- Confirmations: when calls were made that grants were given for.
--
-- Locks: the rules (shared), the limits of the grants.

-- Says when calls were made that grants were given for (storage/grants.ts). It causes no wake-up: waiting claims know when to look again.
--
-- said: {grants, called, name}: two lists of one length; name: the rate that the grants are of, and no others count; NULL: any limit.
CREATE OR REPLACE FUNCTION {schema}.confirm_{version}(said json) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp
  SET plan_cache_mode = force_generic_plan SET jit = off SET enable_seqscan = off SET enable_hashjoin = off
  SET enable_mergejoin = off AS $$
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
          l.seen_at, l.window_ms, l.called_by = s.claim AS is_latest, s.n = 0 AND l.longest = 0 AS is_mark
        FROM {schema}.starts AS s JOIN {schema}.limits AS l ON l.id = s.limit_id
        WHERE s.claim = ANY (grants) AND (only_name IS NULL OR l.name = only_name) OFFSET 0
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
