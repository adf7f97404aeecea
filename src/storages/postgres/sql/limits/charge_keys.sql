-- Writes down what the starts of a claim took of its keys. Answers the ids of their states, where in the log the starts are (0: nowhere),
-- and when they are to be confirmed (NULL: never).
--
-- keys: as opened. weights, slots, starts: what was taken of each state, all together, and by how many starts. number, ttl, began: of
-- the grant that is to be confirmed (tables/1.sql); ttl is NULL where none is. now: when they start. permit: it is the start of a permit
-- with that number, in a row of its own.
CREATE OR REPLACE FUNCTION {schema}.charge_keys(
  keys {schema}.claim_keys, weights float8[], starts integer[], slots float8[], number bigint, ttl float8, began float8, now float8,
  permit boolean DEFAULT false, OUT ids bigint[], OUT entries bigint[], OUT confirm_in float8
)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  fresh integer[];
  fresh_ids bigint[];
  places integer[];
  seqs bigint[];
BEGIN
  ids := keys.ids;
  entries := array_fill(0::bigint, ARRAY[cardinality(ids)]);
  -- Rules of one name share a state: its total is kept for the window of the first of them.
  FOR k IN 1 .. cardinality(ids) LOOP
    IF keys.states[k] <> k THEN
      IF keys.windows[keys.states[k]] IS NULL THEN
        keys.windows[keys.states[k]] := keys.windows[k];
        keys.used[keys.states[k]] := keys.used[k];
        keys.used_at[keys.states[k]] := keys.used_at[k];
        keys.logged[keys.states[k]] := keys.logged[keys.states[k]] OR keys.logged[k];
      END IF;
      keys.everys[keys.states[k]] := least(keys.everys[keys.states[k]], keys.everys[k]);
    END IF;
  END LOOP;
  IF EXISTS (SELECT FROM unnest(ids, starts) AS k (id, starts) WHERE k.id IS NULL AND k.starts > 0) THEN
    WITH missing AS (
      SELECT k.place::integer, k.name, k.grp, coalesce(k.window_ms, 0) AS longest
      FROM unnest(ids, keys.names, keys.grps, keys.windows, starts) WITH ORDINALITY AS k (id, name, grp, window_ms, starts, place)
      WHERE k.id IS NULL AND k.starts > 0
    ), opened AS (
      INSERT INTO {schema}.limits (name, grp, longest, prune_at)
      SELECT m.name, m.grp, m.longest, now + m.longest FROM missing m RETURNING id, name, grp
    ) SELECT array_agg(m.place), array_agg(o.id) INTO fresh, fresh_ids FROM opened o JOIN missing m ON m.name = o.name AND m.grp = o.grp;
    FOR i IN 1 .. cardinality(fresh) LOOP
      ids[fresh[i]] := fresh_ids[i];
    END LOOP;
  END IF;
  WITH entered AS (
    INSERT INTO {schema}.starts AS s (seq, limit_id, at, since, n, claim, began, token) OVERRIDING SYSTEM VALUE
    -- A row that is there already is for starts of the same instant, or of a thousandth of a window with room for very many.
    SELECT coalesce(CASE WHEN NOT permit AND (now = keys.at OR k.max > 1000) THEN k.entry END, nextval('{schema}.starts_seq_seq')), k.id,
      now + coalesce(ttl, 0), now, CASE WHEN k.logged THEN k.n ELSE 0 END,
      CASE WHEN ttl IS NOT NULL THEN number END, CASE WHEN ttl IS NOT NULL THEN charge_keys.began END,
      CASE WHEN permit AND k.logged THEN number END
    FROM unnest(ids, weights, starts, keys.entries, keys.logged, keys.everys, keys.maxima)
      AS k (id, n, starts, entry, logged, every_ms, max)
    WHERE k.starts > 0 AND (k.logged OR (ttl IS NOT NULL AND k.every_ms IS NOT NULL))
    ON CONFLICT ON CONSTRAINT starts_pkey DO UPDATE SET at = excluded.at, n = s.n + excluded.n
    RETURNING s.seq, s.limit_id
  ) SELECT array_agg(array_position(ids, e.limit_id)), array_agg(e.seq) INTO places, seqs FROM entered e;
  FOR i IN 1 .. coalesce(cardinality(places), 0) LOOP
    IF keys.logged[places[i]] THEN
      entries[places[i]] := seqs[i];
    END IF;
  END LOOP;
  UPDATE {schema}.limits l SET latest_at = now, called_at = greatest(l.called_at, now + coalesce(ttl, 0)),
    called_by = CASE WHEN ttl IS NOT NULL AND k.every_ms IS NOT NULL AND (l.called_at > now) IS NOT TRUE THEN number END,
    told_left = CASE WHEN l.told_left IS NOT NULL THEN greatest(0, l.told_left - k.n) END,
    window_ms = coalesce(k.window_ms, l.window_ms),
    used = CASE WHEN k.window_ms IS NOT NULL THEN k.used WHEN l.window_ms IS NOT NULL THEN l.used ELSE -k.n END + k.n,
    seen_at = CASE WHEN k.window_ms IS NOT NULL THEN k.used_at WHEN l.window_ms IS NOT NULL THEN l.seen_at ELSE now END,
    longest = greatest(l.longest, k.window_ms), newest = CASE WHEN k.place > 0 THEN now ELSE l.newest END,
    entry = CASE WHEN ttl IS NULL AND NOT permit AND k.place > 0 THEN k.place ELSE l.entry END,
    entry_since = CASE WHEN ttl IS NULL AND NOT permit AND k.place > 0 AND k.place IS DISTINCT FROM l.entry THEN now ELSE l.entry_since END,
    held = l.held + k.slots
  FROM unnest(ids, weights, slots, starts, keys.windows, keys.everys, keys.used, keys.used_at, entries)
    AS k (id, n, slots, starts, window_ms, every_ms, used, used_at, place)
  WHERE l.id = k.id AND k.starts > 0;
  IF ttl IS NOT NULL THEN
    SELECT {schema}.confirm_in(min(least(k.window_ms, k.every_ms))) INTO confirm_in
      FROM unnest(keys.windows, keys.everys, keys.states) AS k (window_ms, every_ms, state)
      WHERE starts[k.state] > 0 AND (entries[k.state] > 0 OR k.every_ms IS NOT NULL)
      HAVING count(*) > 0;
  END IF;
END
$$;
