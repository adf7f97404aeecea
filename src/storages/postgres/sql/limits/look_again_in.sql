-- When to look again at a window that a start is in the way of which is not confirmed yet: lookAgainIn in limits/look-again.ts.
--
-- age: how long ago the call was expected. certain_in: when it has left for certain.
CREATE OR REPLACE FUNCTION {schema}.look_again_in(age float8, window_ms float8, certain_in float8) RETURNS float8
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  at float8 := window_ms;
  step float8 := window_ms / 4;
BEGIN
  IF age < window_ms THEN
    RETURN least(certain_in, window_ms - age);
  END IF;
  WHILE at <= age LOOP
    at := at + step;
    step := step * 2;
  END LOOP;
  RETURN least(certain_in, greatest(at - age, window_ms / 4));
END
$$;
