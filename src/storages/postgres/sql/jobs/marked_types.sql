-- The types of a queue of which jobs wait without a group, as open_types finds them; of those that have marks from these on.
CREATE OR REPLACE FUNCTION {schema}.marked_types(queue text) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  types text[] := '{}';
  after text := '';
  mark record;
  found_type text;
BEGIN
  FOR mark IN
    SELECT DISTINCT k.type FROM {schema}.marks k WHERE k.queue = marked_types.queue
    UNION ALL SELECT NULL ORDER BY 1 NULLS LAST
  LOOP
    -- Those between this one and the one before it.
    LOOP
      found_type := CASE WHEN mark.type IS NULL
        THEN (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = marked_types.queue AND j.type > after AND j.state = 'waiting' AND j.grp IS NULL
          ORDER BY j.type LIMIT 1)
        ELSE (SELECT j.type FROM {schema}.jobs j
          WHERE j.queue = marked_types.queue AND j.type > after AND j.type < mark.type AND j.state = 'waiting' AND j.grp IS NULL
          ORDER BY j.type LIMIT 1) END;
      EXIT WHEN found_type IS NULL;
      types := types || found_type;
      after := found_type;
    END LOOP;
    EXIT WHEN mark.type IS NULL;
    IF ({schema}.first_open(queue, mark.type, '-Infinity')).seq IS NOT NULL THEN
      types := types || mark.type;
    END IF;
    after := mark.type;
  END LOOP;
  RETURN types;
END
$$;
