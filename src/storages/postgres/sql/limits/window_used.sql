-- How much of a window is in use, without adding up the whole window every time: kept_used was in use at seen_at, in a window
-- of kept_ms. Whoever looks later takes off what has left since, along the index. Weights are whole numbers, so the sums are
-- exact. The first bounds find the place in the index; the ages, by subtraction, are exact.
CREATE OR REPLACE FUNCTION {schema}.window_used(
  id bigint, kept_ms float8, kept_used float8, seen_at float8, window_ms float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  n float8;
BEGIN
  IF id IS NULL THEN
    RETURN 0;
  END IF;
  IF kept_ms IS DISTINCT FROM window_ms OR seen_at > now THEN
    SELECT sum(s.n) INTO n FROM {schema}.starts AS s
      WHERE s.limit_id = window_used.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms;
    RETURN coalesce(n, 0);
  END IF;
  -- Nothing has left that was not there, and nothing at all at the same instant.
  IF kept_used = 0 OR seen_at = now THEN
    RETURN kept_used;
  END IF;
  SELECT sum(s.n) INTO n FROM {schema}.starts AS s
    WHERE s.limit_id = window_used.id AND s.at > seen_at - window_ms - 1 AND seen_at - s.at < window_ms
      AND s.at < now - window_ms + 1 AND now - s.at >= window_ms;
  RETURN kept_used - coalesce(n, 0);
END
$$;
