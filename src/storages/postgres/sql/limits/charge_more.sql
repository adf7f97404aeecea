-- A start under this limit turns out to have used so much more than was charged for it: so much less is left of what the
-- service said.
CREATE OR REPLACE FUNCTION {schema}.charge_more(id bigint, more float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF more > 0 THEN
    UPDATE {schema}.limits AS l SET told_left = greatest(0, l.told_left - more)
      WHERE l.id = charge_more.id AND l.told_left IS NOT NULL;
  END IF;
END
$$;
