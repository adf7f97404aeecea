-- Does a job of this type wait? Most likely one of this priority from here on, where those stood that a claim has started, or where
-- it saw the first: they are next to each other in the index. If not, there may be one elsewhere.
CREATE OR REPLACE FUNCTION {schema}.any_after(queue text, type text, head_priority float8, head_due_at float8, head_seq bigint,
  now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN coalesce((SELECT true FROM {schema}.jobs j
    WHERE j.queue = any_after.queue AND j.type = any_after.type AND j.state = 'waiting' AND j.grp IS NULL
      AND j.priority = head_priority AND (j.due_at, j.seq) >= (head_due_at, head_seq) AND (j.deadline IS NULL OR j.deadline > now)
    ORDER BY j.due_at, j.seq LIMIT 1), {schema}.any_open(queue, ARRAY[type], false, now));
END
$$;
