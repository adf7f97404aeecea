-- When does `weight` more fit under `max` in any `window_ms`, beside what is used? -1: never. `used` may count starts that are
-- not written down yet: they happen now. id: NULL where nothing is kept. forgotten_at: the newest start that was not kept;
-- until it has left the window, that counts as full.
CREATE OR REPLACE FUNCTION {schema}.window_wait(
  id bigint, forgotten_at float8, max float8, window_ms float8, weight float8, used float8, now float8
) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  excess float8 := used + weight - max;
  blind float8;
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
  -- Every row counts for one at least: no more of them need be looked at.
  FOR start IN
    SELECT s.at, s.n FROM {schema}.starts AS s
      WHERE s.limit_id = window_wait.id AND s.at > now - window_ms - 1 AND now - s.at < window_ms AND s.n > 0
      ORDER BY s.at, s.seq LIMIT ceil(excess)
  LOOP
    excess := excess - start.n;
    IF excess <= 0 THEN
      RETURN greatest(blind, window_ms - (now - start.at));
    END IF;
  END LOOP;
  RETURN greatest(blind, window_ms);
END
$$;
