-- By how much later than it was asked for a call is expected, if the one before took so long: expectedDelay in
-- limits/look-again.ts. NULL where nothing is known.
CREATE OR REPLACE FUNCTION {schema}.expected_delay(called_in float8, window_ms float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN called_in IS NOT NULL THEN greatest(0, least(called_in, window_ms / 4)) END
$$;
