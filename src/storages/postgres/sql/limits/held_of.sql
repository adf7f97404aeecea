-- What is held of a limit: all slots together, how many starts since the breaker went half-open are under way, and when the
-- next of what is held runs out by itself ('Infinity': only somebody can give it back). job_slots: what jobs hold of it.
-- open_until: since when starts are probes; NULL: none is.
CREATE OR REPLACE FUNCTION {schema}.held_of(
  id bigint, job_slots float8, open_until float8, now float8, OUT slots float8, OUT probes float8, OUT expires_in float8
)
LANGUAGE plpgsql STABLE AS $$
BEGIN
  slots := job_slots;
  probes := 0;
  expires_in := 'Infinity';
  IF id IS NULL THEN
    slots := 0;
    RETURN;
  END IF;
  SELECT job_slots + coalesce(sum(h.slots), 0), coalesce(min(h.until) - now, 'Infinity') INTO slots, expires_in
    FROM {schema}.holds AS h WHERE h.limit_id = held_of.id AND h.until > now;
  IF open_until IS NOT NULL THEN
    SELECT count(*) INTO probes FROM {schema}.holds AS h
      WHERE h.limit_id = held_of.id AND h.at >= open_until AND (h.until IS NULL OR h.until > now);
  END IF;
END
$$;
