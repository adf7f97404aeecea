-- What limits leave to a claim whose jobs are all alike to them: how many may start, when one more may, and what is in its way
-- until then: of several, the one that is so the longest. `at`: the instant for which that is so, not before any start that
-- is known. prepare: starts are kept long enough from now on; else nothing is written, and `unprepared` says whether
-- somebody has to.
--
-- Almost always nothing but numbers could be in the way, and they leave room. Where that is so for more than any claim asks
-- for, what has left the window is not looked up: it can only be less that is in use.
CREATE OR REPLACE FUNCTION {schema}.claim_room(
  rules {schema}.limit_rule[], now float8, prepare boolean DEFAULT true
) RETURNS {schema}.limit_room
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  room {schema}.limit_room;
  uses {schema}.limit_use[] := '{}';
  names text[] := '{}';
  rule {schema}.limit_rule;
  kept record;
  instant float8 := now;
  free float8 := 'Infinity';
  shortest float8;
  used float8;
  used_at float8;
BEGIN
  FOR kept IN
    SELECT l.*, r.ordinality AS place, CASE WHEN r.concurrency IS NOT NULL THEN l.held + coalesce(
        (SELECT sum(h.slots) FROM {schema}.holds AS h WHERE h.limit_id = l.id AND h.until > now), 0) END AS slots
      FROM unnest(rules) WITH ORDINALITY AS r LEFT JOIN {schema}.limits AS l ON l.name = r.name AND l.grp = ''
  LOOP
    rule := rules[kept.place];
    instant := greatest(instant, kept.newest, kept.latest_at);
    IF rule.paused OR rule.every_ms IS NOT NULL OR (rule.probes IS NOT NULL AND kept.open_until IS NOT NULL)
      OR greatest(rule.held_until, rule.blind_until, kept.pause_until, kept.told_until) > instant
      OR kept.longest < rule.window_ms OR instant - kept.forgotten_at < rule.window_ms OR rule.name = ANY (names)
    THEN
      RETURN {schema}.weigh_room(rules, now, prepare);
    END IF;
    used := kept.used;
    used_at := kept.seen_at;
    IF rule.max IS NOT NULL AND (kept.window_ms IS DISTINCT FROM rule.window_ms OR used + 10000 > rule.max
      OR (instant - used_at) * 8 > rule.window_ms)
    THEN
      used := {schema}.window_used(kept.id, kept.window_ms, used, used_at, rule.window_ms, instant);
      used_at := instant;
    END IF;
    free := least(free, rule.max - used, rule.concurrency - coalesce(kept.slots, 0));
    IF free < 1 THEN
      RETURN {schema}.weigh_room(rules, now, prepare);
    END IF;
    names := names || rule.name;
    shortest := least(shortest, rule.window_ms);
    uses := uses || (kept.id, rule.name, rule.concurrency IS NOT NULL OR rule.probes IS NOT NULL, rule.probes IS NOT NULL,
      coalesce(rule.window_ms, kept.window_ms), used, used_at,
      rule.window_ms IS NOT NULL OR kept.window_ms IS NOT NULL OR kept.longest > 0,
      CASE WHEN instant = kept.entry_since OR (rule.max > 1000 AND (instant - kept.entry_since) * 1000 < rule.window_ms)
        THEN kept.entry END, false)::{schema}.limit_use;
  END LOOP;
  room.at := instant;
  room.free := floor(free);
  room.wait := 0;
  room.unprepared := false;
  room.plain := true;
  room.rules := rules;
  room.uses := uses;
  room.shortest := shortest;
  RETURN room;
END
$$;
