-- The lane of a type that is let go on first, of those that a limit keeps back and where somebody waits; NULL: there is none. One
-- whose jobs were cancelled or removed stays until it is its turn. Where many such come first, the first of them.
CREATE OR REPLACE FUNCTION {schema}.first_blocked(queue_name text, type_name text) RETURNS {schema}.lanes
LANGUAGE plpgsql STABLE AS $$
DECLARE
  most CONSTANT integer := 10;
  seen integer := 0;
  lane {schema}.lanes;
  first {schema}.lanes;
BEGIN
  FOR lane IN
    SELECT l.* FROM {schema}.lanes l
    WHERE l.queue = queue_name AND l.type = type_name AND l.ready AND l.blocked_until IS NOT NULL
    ORDER BY l.blocked_until LIMIT most
  LOOP
    IF {schema}.head_of(lane) IS NOT NULL THEN
      RETURN lane;
    END IF;
    seen := seen + 1;
    IF seen = 1 THEN
      first := lane;
    END IF;
  END LOOP;
  RETURN CASE WHEN seen = most THEN first END;
END
$$;
