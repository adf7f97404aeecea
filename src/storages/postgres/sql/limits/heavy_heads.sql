-- Jobs that are too heavy for what is left of a limit, and wait for it. One that is not there any more, or is paused, is waited
-- for by nobody. When its instant has come a heavy one is still waited for, for 100 ms: whoever claims it is on the way.
--
-- limit_name: which limit. lane_grps: of which groups, as lanes say it; NULL: of all. at: now.
CREATE OR REPLACE FUNCTION {schema}.heavy_heads(limit_name text, lane_grps text[], at float8)
RETURNS TABLE (lane bigint, grp text, priority float8, until float8, since float8)
LANGUAGE sql STABLE AS $$
  SELECT l.id, l.grp, l.priority, l.blocked_until, l.heavy_since FROM {schema}.lanes l
  WHERE l.blocked_by = limit_name AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL AND l.blocked_until > at - 100
    AND (lane_grps IS NULL OR l.grp = ANY (lane_grps))
    AND EXISTS (SELECT FROM {schema}.jobs j WHERE j.queue COLLATE "POSIX" = l.queue AND j.state COLLATE "POSIX" = 'waiting'
      AND j.state COLLATE "POSIX" <> 'active' AND j.seq = l.heavy)
    AND NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = l.queue AND p.type IN ('', ':' || l.type))
$$;
