-- The types of a queue that a claim may take: those it asks for (NULL: any that has open jobs, without a group) and that
-- are not paused. From one type to the next along the index, however many jobs lie between them. marked: there may be marks, and
-- types that have some are looked at from these on.
CREATE OR REPLACE FUNCTION {schema}.open_types(queue text, asked text[], marked boolean) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  kept text[] := asked;
BEGIN
  IF asked IS NULL AND marked THEN
    kept := {schema}.marked_types(queue);
  ELSIF asked IS NULL THEN
    WITH RECURSIVE types AS (
      (SELECT j.type FROM {schema}.jobs j
        WHERE j.queue = open_types.queue AND j.state = 'waiting' AND j.grp IS NULL
        ORDER BY j.type LIMIT 1)
      UNION ALL
      SELECT (SELECT j.type FROM {schema}.jobs j
        WHERE j.queue = open_types.queue AND j.type > t.type
          AND j.state = 'waiting' AND j.grp IS NULL
        ORDER BY j.type LIMIT 1)
      FROM types t WHERE t.type IS NOT NULL
    )
    SELECT array_agg(t.type) INTO kept FROM types t WHERE t.type IS NOT NULL;
  ELSIF cardinality(asked) > 1 THEN
    kept := ARRAY(SELECT DISTINCT t FROM unnest(asked) t);
  END IF;
  IF EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue) THEN
    kept := ARRAY(SELECT t FROM unnest(kept) t
      WHERE NOT EXISTS (SELECT FROM {schema}.pauses p WHERE p.queue = open_types.queue AND p.type = ':' || t));
  END IF;
  RETURN coalesce(kept, '{}');
END
$$;
