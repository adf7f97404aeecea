-- The first who waits without a group, of this type, from the marks on: by priority, those between marks, then those behind the next.
CREATE OR REPLACE FUNCTION {schema}.first_open(queue text, type text, now float8, OUT priority float8, OUT due_at float8,
  OUT seq bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  above float8 := 'Infinity';
  mark record;
BEGIN
  FOR mark IN
    SELECT k.priority, k.due_at, k.seq FROM {schema}.marks k WHERE k.queue = first_open.queue AND k.type = first_open.type
    UNION ALL SELECT '-Infinity', 0, 0 ORDER BY 1 DESC
  LOOP
    SELECT j.priority, j.due_at, j.seq INTO priority, due_at, seq FROM {schema}.jobs j
    WHERE j.queue = first_open.queue AND j.type = first_open.type AND j.state = 'waiting' AND j.grp IS NULL
      AND j.priority < above AND j.priority > mark.priority AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1;
    EXIT WHEN FOUND;
    SELECT j.priority, j.due_at, j.seq INTO priority, due_at, seq FROM {schema}.jobs j
    WHERE j.queue = first_open.queue AND j.type = first_open.type AND j.state = 'waiting' AND j.grp IS NULL
      AND j.priority = mark.priority AND (j.due_at, j.seq) >= (mark.due_at, mark.seq) AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT 1;
    EXIT WHEN FOUND;
    above := mark.priority;
  END LOOP;
END
$$;
