-- How long somebody has to wait for the heavy jobs that wait for a limit; 0: not at all. Those of a lower priority are passed;
-- of the same priority those come first who have waited for longer.
--
-- limit_name, lane_grp: which limit, for which group, as lanes say it; NULL: for all. own_priority, own_lane, own_since: who
-- asks, and since when it waits for the limit itself ('Infinity': it does not). at: now. promptly: whoever claims them is there.
CREATE OR REPLACE FUNCTION {schema}.heavy_wait(
  limit_name text, lane_grp text, own_priority float8, own_lane bigint, own_since float8, at float8, promptly boolean
) RETURNS float8
LANGUAGE sql STABLE AS $$
  SELECT greatest(0, max(CASE
      WHEN h.until >= 1e18 THEN 'Infinity'
      WHEN h.until > at THEN h.until - at
      ELSE h.until + CASE WHEN promptly THEN 0 ELSE 100 END - at END))
  FROM {schema}.heavy_heads(limit_name, CASE WHEN lane_grp IS NOT NULL THEN ARRAY[lane_grp] END, at) h
  WHERE h.lane <> own_lane AND h.priority >= own_priority
    AND (h.priority > own_priority OR h.since < own_since OR (h.since = own_since AND h.lane < own_lane))
$$;
