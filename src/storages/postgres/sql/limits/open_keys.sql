-- The keys that a claim may charge, with how much of each is available: those of rules for all jobs, then, group by group, those of rules
-- by group. Each state is read once, after its lock was taken. `at`: not before any start that is known.
--
-- Whatever is in the way of a start comes down to four comparisons: the key is not closed, and its weight, its slots and one more start
-- are available. How long a refused start has to wait is told by refusal_wait.sql.
--
-- rules: those for all (`all_count`), then those by group. grps: as lanes say it. want: so many start at most. ttl: how soon they
-- are called; NULL: at once. now: the time.
CREATE OR REPLACE FUNCTION {schema}.open_keys(
  rules {schema}.limit_rule[], all_count integer, grps text[], want integer, ttl float8, now float8
) RETURNS {schema}.claim_keys
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  keys {schema}.claim_keys;
BEGIN
  LOOP
    SELECT now, max(k.latest), bool_or(k.longest < k.window_ms), array_agg(k.rule), array_agg(k.name), array_agg(k.grp),
        array_agg(k.id), array_agg(k.place), array_agg(k.max), array_agg(k.window_ms), array_agg(k.concurrency), array_agg(k.every_ms),
        array_agg(k.holds), array_agg(k.pins), array_agg(k.alike), array_agg(k.closed),
        array_agg(coalesce(least(k.max - k.used, k.remaining), 'Infinity')),
        array_agg(coalesce(k.concurrency - k.slots, 'Infinity')), array_agg(coalesce(k.starts, 'Infinity')),
        array_agg(k.used), array_agg(k.used_at), array_agg(k.entry), array_agg(k.logged)
      INTO keys
      FROM (
        SELECT a.*, l.id, l.longest, greatest(l.newest, l.latest_at) AS latest, u.used, u.used_at,
          a.paused OR coalesce(greatest(a.held_until, l.pause_until) > now, false)
            OR (a.window_ms IS NOT NULL AND (a.max = 0
              OR coalesce(greatest(a.blind_until - now, a.window_ms - (now - l.forgotten_at)) > 0, false)))
            OR (a.probes IS NOT NULL AND coalesce(now < l.open_until, false)) AS closed,
          CASE WHEN now < l.told_until THEN coalesce(l.told_left, 0) END AS remaining,
          CASE WHEN a.holds THEN coalesce(l.held, 0) + coalesce((
            SELECT sum(h.slots) FROM {schema}.holds h WHERE h.limit_id = l.id AND h.until > now), 0) END AS slots,
          least(CASE WHEN a.every_ms IS NOT NULL THEN CASE WHEN a.every_ms - (now - l.called_at) > 0 THEN 0 ELSE 1 END END,
            CASE WHEN a.probes IS NOT NULL AND l.open_until IS NOT NULL THEN a.probes - (
              SELECT count(*) FROM {schema}.holds h
              WHERE h.limit_id = l.id AND h.at >= l.open_until AND (h.until IS NULL OR h.until > now)) END)::float8 AS starts,
          CASE WHEN ttl IS NULL AND (now = l.entry_since OR (a.max > 1000 AND (now - l.entry_since) * 1000 < a.window_ms))
            THEN l.entry END AS entry,
          a.window_ms IS NOT NULL OR l.window_ms IS NOT NULL OR coalesce(l.longest > 0, false) AS logged
        FROM {schema}.quotas_of(rules, all_count, grps) AS a
          -- One by one: planned while there were few limits, a join would read all of them.
          LEFT JOIN LATERAL (SELECT o.* FROM {schema}.limits o WHERE o.name = a.name AND o.grp = a.grp LIMIT 1) l ON true
          CROSS JOIN LATERAL (
            SELECT CASE WHEN a.window_ms IS NULL THEN NULL WHEN l.id IS NULL THEN 0 WHEN s.suffices THEN l.used
                ELSE {schema}.window_used(l.id, l.window_ms, l.used, l.seen_at, a.window_ms, now) END AS used,
              CASE WHEN s.suffices THEN l.seen_at ELSE now END AS used_at
            -- What has left the window since is not looked up where all would fit beside it.
            FROM (SELECT a.weight IS NULL AND l.window_ms = a.window_ms AND l.used + want <= a.max
              AND l.seen_at <= now AND now - l.seen_at <= a.window_ms AS suffices OFFSET 0) s OFFSET 0
          ) u
        ORDER BY a.place
      ) k;
    EXIT WHEN keys.latest IS NULL OR keys.latest <= now;
    now := keys.latest;
  END LOOP;
  FOR i IN 2 .. all_count LOOP
    keys.states[i] := array_position(keys.names, keys.names[i]);
  END LOOP;
  IF keys.unprepared THEN
    UPDATE {schema}.limits l SET longest = k.window_ms
      FROM unnest(keys.ids, keys.windows) AS k (id, window_ms) WHERE l.id = k.id AND l.longest < k.window_ms;
  END IF;
  RETURN keys;
END
$$;

-- What rules say about each of their keys, in the order of open_keys: the quota, and whether starts hold slots of it (`holds`), or a row
-- without slots (`pins`), by which a group is remembered until the weight of its start may no longer be corrected.
CREATE OR REPLACE FUNCTION {schema}.quotas_of(rules {schema}.limit_rule[], all_count integer, grps text[])
RETURNS TABLE (
  place integer, rule integer, name text, grp text, max float8, window_ms float8, concurrency float8, every_ms float8, weight text,
  probes integer, paused boolean, held_until float8, blind_until float8, holds boolean, pins boolean, alike boolean
)
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT k.place::integer, k.rule::integer, r.name, k.grp, (k.quota).max, CASE WHEN (k.quota).max IS NOT NULL THEN (k.quota).window_ms END,
    (k.quota).concurrency, (k.quota).every_ms, r.weight, r.probes, r.paused, r.held_until, r.blind_until,
    r.probes IS NOT NULL OR (k.quota).concurrency IS NOT NULL,
    r.by_group AND r.weight IS NOT NULL AND r.max IS NOT NULL AND r.probes IS NULL AND (k.quota).concurrency IS NULL,
    (k.quota).concurrency IS NOT NULL AND num_nonnulls(r.probes, r.weight) = 0 AND k.rule <= all_count
  FROM (
    SELECT r.ordinality AS place, r.ordinality AS rule, '' AS grp,
        (r.max, r.window_ms, r.concurrency, r.every_ms, 1)::{schema}.limit_quota AS quota
      FROM unnest(rules) WITH ORDINALITY AS r WHERE r.ordinality <= all_count
    UNION ALL
    SELECT (g.ordinality - 1) * (cardinality(rules) - all_count) + r.ordinality, r.ordinality,
      CASE WHEN g.grp = '' THEN '-' ELSE g.grp END,
      CASE WHEN r.groups ? substr(g.grp, 2) AND g.grp <> '' THEN {schema}.quota_of(rules[r.ordinality], substr(g.grp, 2))
        ELSE (r.max, r.window_ms, r.concurrency, r.every_ms, 1)::{schema}.limit_quota END
      FROM unnest(grps) WITH ORDINALITY AS g (grp) CROSS JOIN unnest(rules) WITH ORDINALITY AS r WHERE r.ordinality > all_count
  ) k CROSS JOIN LATERAL (SELECT u.* FROM unnest(rules[k.rule : k.rule]) AS u) r
$$;
