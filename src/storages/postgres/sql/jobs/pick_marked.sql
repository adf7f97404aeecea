-- As pick_open, of one type, from the marks on: by priority, those between marks, then those behind the next.
CREATE OR REPLACE FUNCTION {schema}.pick_marked(queue text, type text, want integer, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[] := '{}';
  above float8 := 'Infinity';
  mark record;
BEGIN
  FOR mark IN
    SELECT k.priority, k.due_at, k.seq FROM {schema}.marks k WHERE k.queue = pick_marked.queue AND k.type = pick_marked.type
    UNION ALL SELECT '-Infinity', 0, 0 ORDER BY 1 DESC
  LOOP
    picked := picked || ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_marked.queue AND j.type = pick_marked.type AND j.state = 'waiting' AND j.grp IS NULL
        AND j.priority < above AND j.priority > mark.priority AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED);
    picked := picked || ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_marked.queue AND j.type = pick_marked.type AND j.state = 'waiting' AND j.grp IS NULL
        AND j.priority = mark.priority AND (j.due_at, j.seq) >= (mark.due_at, mark.seq)
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED);
    EXIT WHEN cardinality(picked) = want;
    above := mark.priority;
  END LOOP;
  RETURN picked;
END
$$;
