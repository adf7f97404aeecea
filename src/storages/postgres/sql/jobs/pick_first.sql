-- As pick_open, of one type, from where a claim saw the first of them (head_priority, head_due_at, head_seq): whoever has started
-- since the table was cleaned up last is still in the index before it, and it takes time to pass them all. Who has come before it
-- since then is as one that comes afterwards.
CREATE OR REPLACE FUNCTION {schema}.pick_first(queue text, type text, head_priority float8, head_due_at float8,
  head_seq bigint, want integer, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[] := ARRAY(SELECT j.ctid FROM {schema}.jobs j
    WHERE j.queue = pick_first.queue AND j.type = pick_first.type AND j.state = 'waiting' AND j.grp IS NULL
      AND j.priority = head_priority AND (j.due_at, j.seq) >= (head_due_at, head_seq)
      AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT want FOR UPDATE SKIP LOCKED);
BEGIN
  IF cardinality(picked) < want THEN
    picked := picked || ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_first.queue AND j.type = pick_first.type AND j.state = 'waiting' AND j.grp IS NULL
        AND j.priority < head_priority AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED);
  END IF;
  RETURN picked;
END
$$;
