-- What is kept of many limits, each for one group, as a step sees it that has taken nothing yet, all read together: the account, what
-- is in use of its window, and when its latest start was.
--
-- names, states: which limits, for which groups, as `limits` says it. windows: the window of each, or NULL. holding: is what is
-- held of it asked for? now: the time.
CREATE OR REPLACE FUNCTION {schema}.kept_accounts(
  names text[], states text[], windows float8[], holding boolean[], now float8
) RETURNS TABLE (place bigint, account {schema}.limit_account, used float8, latest float8)
LANGUAGE sql STABLE AS $$
  SELECT a.place, ROW(l.id, a.name, a.grp, l.latest_at, l.pause_until, l.told_left, l.told_until, l.open_until, l.window_ms,
      l.used, l.seen_at, l.longest, l.newest, l.forgotten_at, coalesce(l.held, 0),
      CASE WHEN a.holding THEN coalesce(l.held, 0) + coalesce(h.slots, 0) END,
      CASE WHEN a.holding THEN coalesce(p.probes, 0) END,
      CASE WHEN a.holding THEN coalesce(h.until - now, 'Infinity') END,
      a.window_ms, 0, w.used, CASE WHEN a.window_ms IS NOT NULL THEN now END, 0, 0, 0, 0, 0,
      l.called_at, l.called_by, l.called_in, NULL, NULL)::{schema}.limit_account,
    w.used, greatest(l.newest, l.latest_at)
  FROM unnest(names, states, windows, holding) WITH ORDINALITY AS a (name, grp, window_ms, holding, place)
    LEFT JOIN LATERAL (SELECT k.* FROM {schema}.limits k WHERE k.name = a.name AND k.grp = a.grp LIMIT 1) l ON true
    LEFT JOIN LATERAL (
      SELECT sum(o.slots) AS slots, min(o.until) AS until FROM {schema}.holds o
      WHERE a.holding AND o.limit_id = l.id AND o.until > now
    ) h ON true
    LEFT JOIN LATERAL (
      SELECT count(*) AS probes FROM {schema}.holds o
      WHERE a.holding AND l.open_until IS NOT NULL AND o.limit_id = l.id AND o.at >= l.open_until
        AND (o.until IS NULL OR o.until > now)
    ) p ON true
    LEFT JOIN LATERAL (
      -- As in limits/window_used.sql.
      SELECT CASE WHEN a.window_ms IS NULL THEN NULL WHEN l.id IS NULL THEN 0
        WHEN l.window_ms IS DISTINCT FROM a.window_ms OR l.seen_at > now THEN (
          SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s
          WHERE s.limit_id = l.id AND s.at > now - a.window_ms - 1 AND now - s.at < a.window_ms)
        WHEN l.used = 0 OR l.seen_at = now THEN l.used
        ELSE l.used - (
          SELECT coalesce(sum(s.n), 0) FROM {schema}.starts s
          WHERE s.limit_id = l.id AND s.at > l.seen_at - a.window_ms - 1 AND l.seen_at - s.at < a.window_ms
            AND s.at < now - a.window_ms + 1 AND now - s.at >= a.window_ms) END AS used
    ) w ON true
$$;
