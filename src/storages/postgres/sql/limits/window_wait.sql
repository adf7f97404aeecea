-- When does `weight` more fit under `max` in any `window_ms`, beside what is used? -1: never. id: NULL where nothing is kept.
-- forgotten_at: the newest start that was not kept; until it has left the window, that counts as full. taken: so much of what is
-- used is not written down yet, and is called within `ttl` (NULL: now).
--
-- A start that is not confirmed is taken to leave the window when it is worth looking again (look_again_in): its call is
-- expected as long after its request as the latest call that was confirmed (what was given back was never called). Once
-- its last moment has passed it counts from there.
CREATE OR REPLACE FUNCTION {schema}.window_wait(
  id bigint, forgotten_at float8, max float8, window_ms float8, weight float8, used float8, taken float8, ttl float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  excess float8 := used + weight - max;
  blind float8;
  unconfirmed boolean;
  delay float8 := 0;
  start record;
BEGIN
  IF weight > max THEN
    RETURN -1;
  END IF;
  IF id IS NULL THEN
    RETURN CASE WHEN excess <= 0 THEN 0 ELSE window_ms END;
  END IF;
  blind := greatest(0, window_ms - (now - forgotten_at));
  IF excess <= 0 THEN
    RETURN blind;
  END IF;
  unconfirmed := EXISTS (SELECT FROM {schema}.starts AS s
    WHERE s.limit_id = window_wait.id AND s.claim IS NOT NULL AND s.at > now);
  IF unconfirmed OR ttl IS NOT NULL THEN
    SELECT coalesce({schema}.expected_delay(s.at - s.began, window_ms), 0) INTO delay FROM {schema}.starts AS s
      WHERE s.limit_id = window_wait.id AND s.claim IS NULL AND s.n > 0 ORDER BY s.at DESC, s.seq DESC LIMIT 1;
    delay := coalesce(delay, 0);
  END IF;
  -- Every row counts for one at least: no more of them need be looked at. Few are not confirmed.
  FOR start IN
    SELECT f.wait, f.n FROM (
      (SELECT window_ms - (now - s.at) AS wait, s.n, s.seq FROM {schema}.starts AS s
        WHERE s.limit_id = window_wait.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms AND s.n > 0
          AND (s.claim IS NULL OR s.at <= now)
        ORDER BY s.at, s.seq LIMIT ceil(excess))
      UNION ALL
      SELECT {schema}.look_again_in(now - (s.began + delay), window_ms, window_ms - (now - s.at)), s.n, s.seq
        FROM {schema}.starts AS s
        WHERE unconfirmed AND s.limit_id = window_wait.id AND s.at > now AND s.n > 0 AND s.claim IS NOT NULL
      UNION ALL
      SELECT window_ms + CASE WHEN ttl IS NULL THEN 0 ELSE least(ttl, delay) END, taken, 9223372036854775807 WHERE taken > 0
    ) AS f ORDER BY f.wait, f.seq
  LOOP
    excess := excess - start.n;
    IF excess <= 0 THEN
      RETURN greatest(blind, start.wait);
    END IF;
  END LOOP;
  RETURN greatest(blind, window_ms);
END
$$;
