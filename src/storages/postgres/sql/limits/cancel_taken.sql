-- So many starts of this instant, each of which took the same, never were. What was cleared since has another id, and keeps
-- its starts.
CREATE OR REPLACE FUNCTION {schema}.cancel_taken(
  limits jsonb, started_at float8, times bigint, now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  taken jsonb;
  kept {schema}.limits;
  entry {schema}.starts;
BEGIN
  IF limits IS NULL OR jsonb_typeof(limits) <> 'array' THEN
    RETURN given;
  END IF;
  FOR taken IN SELECT jsonb_array_elements(limits) LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = (taken ->> 0)::bigint;
    CONTINUE WHEN NOT FOUND;
    entry := {schema}.find_entry(
      kept.id, coalesce((taken ->> 1)::bigint, 0), coalesce((taken ->> 4)::float8, started_at));
    IF entry.seq IS NOT NULL THEN
      PERFORM {schema}.change_entry(entry, -coalesce((taken ->> 2)::float8, 1) * times);
    END IF;
    PERFORM {schema}.gauge_cancel(kept.id, started_at);
    given := given || {schema}.window_freed(kept.name, kept.grp, now);
  END LOOP;
  RETURN given;
END
$$;
