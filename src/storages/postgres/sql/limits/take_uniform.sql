-- Counts `count` starts under each of the limits of a claim, with tokens from `first` on, at the instant of the room. `taken`
-- is what is kept with each job then; `wait` and `blocked_by` are those of one more; `confirm_in`: when it is to be confirmed. ttl,
-- began: as account_save.
CREATE OR REPLACE FUNCTION {schema}.take_uniform(
  room {schema}.limit_room, count integer, first bigint, ttl float8, began float8
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  uses {schema}.limit_use[] := room.uses;
  ids bigint[] := '{}';
  shared bigint[] := '{}';
  singly boolean := false;
  confirms boolean := ttl IS NOT NULL;
  holds boolean := false;
  -- Where the starts are written down; NULL: nowhere.
  places bigint[] := array_fill(NULL::bigint, ARRAY[cardinality(room.uses)]);
  one record;
  list text := '';
  after {schema}.limit_room;
BEGIN
  FOR i IN 1 .. cardinality(uses) LOOP
    IF (uses[i]).id IS NULL THEN
      uses[i].id := ({schema}.open_limit((uses[i]).name, coalesce((uses[i]).counted, 0), '', room.at)).id;
    END IF;
    ids[i] := (uses[i]).id;
    IF confirms THEN
      uses[i].entry := NULL;
    ELSIF (uses[i]).entry IS NOT NULL THEN
      shared := shared || (uses[i]).entry;
    END IF;
    holds := holds OR (uses[i]).holds;
    singly := singly OR ((uses[i]).holds AND (uses[i]).singly);
  END LOOP;
  IF shared <> '{}' THEN
    FOR one IN
      UPDATE {schema}.starts AS s SET at = room.at, n = s.n + count WHERE s.seq = ANY (shared) RETURNING s.seq, s.limit_id
    LOOP
      places[array_position(ids, one.limit_id)] := one.seq;
    END LOOP;
  END IF;
  FOR one IN
    INSERT INTO {schema}.starts AS s (limit_id, at, since, n, claim, began)
      SELECT u.id, room.at + coalesce(ttl, 0), room.at, CASE WHEN u.logged THEN count ELSE 0 END,
        CASE WHEN confirms THEN first END, CASE WHEN confirms THEN take_uniform.began END
      FROM unnest(uses) WITH ORDINALITY AS u
      WHERE (u.logged OR (confirms AND u.spaced)) AND places[u.ordinality] IS NULL
      RETURNING s.seq, s.limit_id, s.n
  LOOP
    IF confirms THEN
      room.confirm_in := {schema}.confirm_in(room.shortest);
    END IF;
    IF one.n > 0 THEN
      places[array_position(ids, one.limit_id)] := one.seq;
    END IF;
  END LOOP;
  UPDATE {schema}.limits AS l SET latest_at = room.at, called_at = greatest(l.called_at, room.at + coalesce(ttl, 0)),
      called_by = CASE WHEN confirms AND u.spaced AND (l.called_at > room.at) IS NOT TRUE THEN first END,
      told_left = CASE WHEN l.told_left IS NOT NULL THEN greatest(0, l.told_left - count) END,
      window_ms = u.counted, used = CASE WHEN u.counted IS NULL THEN 0 ELSE u.before + count END,
      seen_at = coalesce(u.before_at, room.at),
      newest = CASE WHEN u.logged THEN room.at ELSE l.newest END,
      entry = CASE WHEN confirms THEN l.entry ELSE coalesce(places[u.ordinality], l.entry) END,
      entry_since = CASE WHEN confirms OR places[u.ordinality] = u.entry THEN l.entry_since ELSE room.at END,
      held = CASE WHEN u.holds THEN l.held + count ELSE l.held END
    FROM unnest(uses) WITH ORDINALITY AS u WHERE l.id = u.id;
  IF holds THEN
    INSERT INTO {schema}.holds (limit_id, token, slots, at, n)
      SELECT u.id, -first, count, room.at, count FROM unnest(uses) AS u WHERE u.holds AND NOT u.singly;
  END IF;
  IF singly THEN
    INSERT INTO {schema}.holds (limit_id, token, slots, at)
      SELECT u.id, token, 1, room.at FROM unnest(uses) AS u CROSS JOIN generate_series(first, first + count - 1) AS token
      WHERE u.holds AND u.singly;
  END IF;
  FOR i IN 1 .. cardinality(uses) LOOP
    list := concat(list, ',[', ids[i], ',' || places[i], ']');
  END LOOP;
  room.taken := concat('[', substr(list, 2), ']');
  room.free := room.free - count;
  IF NOT room.plain OR room.free < 1 THEN
    after := {schema}.weigh_room(room.rules, room.at, false);
    room.wait := after.wait;
    room.blocked_by := after.blocked_by;
  END IF;
  RETURN room;
END
$$;
