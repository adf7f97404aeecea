-- Starts that leave a window first, and what they count for, as many as decide about `excess`: [wait, n] each. One that is not confirmed
-- as if it left at the instant at which it is worth looking again (limits/window_wait.sql).
CREATE OR REPLACE FUNCTION {schema}.leaving(id bigint, window_ms float8, excess float8, now float8) RETURNS json
LANGUAGE plpgsql STABLE AS $$
DECLARE
  delay float8;
BEGIN
  SELECT {schema}.expected_delay(s.at - s.began, window_ms) INTO delay FROM {schema}.starts AS s
    WHERE s.limit_id = leaving.id AND s.claim IS NULL AND s.n > 0 ORDER BY s.at DESC, s.seq DESC LIMIT 1;
  RETURN (SELECT json_agg(json_build_array(e.wait, e.n) ORDER BY e.wait, e.seq) FROM (
    SELECT f.*, sum(f.n) OVER (ORDER BY f.wait, f.seq) - f.n AS before FROM (
      (SELECT window_ms - (now - s.at) AS wait, s.n, s.seq FROM {schema}.starts AS s
        WHERE s.limit_id = leaving.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms AND s.n > 0
          AND (s.claim IS NULL OR s.at <= now)
        ORDER BY s.at, s.seq LIMIT ceil(excess))
      UNION ALL
      SELECT {schema}.look_again_in(now - (s.began + coalesce(delay, 0)), window_ms, window_ms - (now - s.at)), s.n, s.seq
        FROM {schema}.starts AS s WHERE s.limit_id = leaving.id AND s.at > now AND s.n > 0 AND s.claim IS NOT NULL
    ) f
  ) e WHERE e.before < excess);
END
$$;
