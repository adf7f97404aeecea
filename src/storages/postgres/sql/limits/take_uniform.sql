-- Counts `count` starts under each of the limits of a claim, with tokens from `first` on, at the instant of the room. `taken`
-- is what is kept with each job then; `wait` and `blocked_by` are those of one more.
CREATE OR REPLACE FUNCTION {schema}.take_uniform(
  room {schema}.limit_room, count integer, first bigint
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  use {schema}.limit_use;
  place bigint;
  list text := '';
  after {schema}.limit_room;
BEGIN
  FOREACH use IN ARRAY room.uses LOOP
    place := NULL;
    IF use.id IS NULL THEN
      use.id := ({schema}.open_limit(use.name, coalesce(use.counted, 0), '', room.at)).id;
    END IF;
    IF use.entry IS NOT NULL THEN
      UPDATE {schema}.starts AS s SET at = room.at, n = s.n + count WHERE s.seq = use.entry RETURNING s.seq INTO place;
    END IF;
    IF use.logged AND place IS NULL THEN
      use.entry := NULL;
      INSERT INTO {schema}.starts AS s (limit_id, at, since, n) VALUES (use.id, room.at, room.at, count)
        RETURNING s.seq INTO place;
    END IF;
    UPDATE {schema}.limits AS l SET latest_at = room.at,
        told_left = CASE WHEN l.told_left IS NOT NULL THEN greatest(0, l.told_left - count) END,
        window_ms = use.counted, used = CASE WHEN use.counted IS NULL THEN 0 ELSE use.before + count END,
        seen_at = coalesce(use.before_at, room.at),
        newest = CASE WHEN use.logged THEN room.at ELSE l.newest END,
        entry = coalesce(place, l.entry), entry_since = CASE WHEN use.entry IS NULL THEN room.at ELSE l.entry_since END,
        held = CASE WHEN use.holds THEN l.held + count ELSE l.held END
      WHERE l.id = use.id;
    IF use.holds AND NOT use.singly THEN
      INSERT INTO {schema}.holds (limit_id, token, slots, at, n) VALUES (use.id, -first, count, room.at, count);
    ELSIF use.holds THEN
      INSERT INTO {schema}.holds (limit_id, token, slots, at)
        SELECT use.id, token, 1, room.at FROM generate_series(first, first + count - 1) AS token;
    END IF;
    list := concat(list, ',[', use.id, ',' || place, ']');
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
