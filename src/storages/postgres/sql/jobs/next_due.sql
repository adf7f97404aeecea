-- When the next scheduled job of these types comes due, or a little before if many others come first. asked: NULL, any; types
-- that are paused do not count, nor those in `besides`. NULL: none comes.
CREATE OR REPLACE FUNCTION {schema}.next_due(queue text, asked text[], besides text[]) RETURNS float8
LANGUAGE plpgsql STABLE AS $$
DECLARE
  job record;
  looked integer := 0;
BEGIN
  FOR job IN
    SELECT j.type, j.due_at FROM {schema}.jobs j
    WHERE j.queue = next_due.queue AND j.state = 'scheduled' ORDER BY j.due_at LIMIT 64
  LOOP
    looked := looked + 1;
    IF looked = 64 OR ((asked IS NULL OR job.type = ANY (asked)) AND (besides IS NULL OR job.type <> ALL (besides)) AND NOT EXISTS (
      SELECT FROM {schema}.pauses p WHERE p.queue = next_due.queue AND p.type = ':' || job.type)) THEN
      RETURN job.due_at;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;
