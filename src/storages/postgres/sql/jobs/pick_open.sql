-- The next jobs without a group, of these types: higher priority first, then by due_at, then as they were added. They are locked;
-- those that others have locked are passed over.
--
-- Of one type they lie in the index in this order. Of several the index tells, without locks, how many of each there are
-- among the first; so no more are locked than are taken. Where others were faster, a second look finds the rest. marked: there may
-- be marks, and those of one type are looked for from these on.
CREATE OR REPLACE FUNCTION {schema}.pick_open(queue text, types text[], want integer, marked boolean, now float8) RETURNS tid[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  picked tid[];
  seen bigint;
BEGIN
  IF cardinality(types) = 1 AND marked THEN
    RETURN {schema}.pick_marked(queue, types[1], want, now);
  END IF;
  IF cardinality(types) = 1 THEN
    RETURN ARRAY(SELECT j.ctid FROM {schema}.jobs j
      WHERE j.queue = pick_open.queue AND j.type = types[1] AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want FOR UPDATE SKIP LOCKED);
  END IF;
  WITH first AS (
    SELECT h.type FROM unnest(types) AS t (type)
    CROSS JOIN LATERAL (SELECT j.type, j.priority, j.due_at, j.seq FROM {schema}.jobs j
      WHERE j.queue = pick_open.queue AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want) h
    ORDER BY h.priority DESC, h.due_at, h.seq LIMIT want
  ), counts AS (
    SELECT f.type, count(*) AS n FROM first f GROUP BY f.type
  )
  SELECT array_agg(p.at ORDER BY p.priority DESC, p.due_at, p.seq), (SELECT sum(c.n) FROM counts c) INTO picked, seen
  FROM counts c
  CROSS JOIN LATERAL (SELECT j.ctid AS at, j.priority, j.due_at, j.seq FROM {schema}.jobs j
    WHERE j.queue = pick_open.queue AND j.type = c.type AND j.state = 'waiting' AND j.grp IS NULL
      AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.priority DESC, j.due_at, j.seq LIMIT c.n FOR UPDATE SKIP LOCKED) p;
  picked := coalesce(picked, '{}');
  IF cardinality(picked) < seen AND seen = want THEN
    picked := picked || ARRAY(SELECT p.at FROM unnest(types) AS t (type)
      CROSS JOIN LATERAL (SELECT j.ctid AS at, j.priority, j.due_at, j.seq FROM {schema}.jobs j
        WHERE j.queue = pick_open.queue AND j.type = t.type AND j.state = 'waiting' AND j.grp IS NULL
          AND (j.deadline IS NULL OR j.deadline > now) AND j.ctid <> ALL (picked)
        ORDER BY j.priority DESC, j.due_at, j.seq LIMIT want - cardinality(picked) FOR UPDATE SKIP LOCKED) p
      ORDER BY p.priority DESC, p.due_at, p.seq LIMIT want - cardinality(picked));
  END IF;
  RETURN picked;
END
$$;
