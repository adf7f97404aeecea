-- The number of the job that is first in a lane; NULL: nobody waits there.
CREATE OR REPLACE FUNCTION {schema}.head_of(l {schema}.lanes) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF l.grp = '' THEN
    RETURN (SELECT j.seq FROM {schema}.jobs j
      WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting' AND j.grp IS NULL
      ORDER BY j.due_at, j.seq LIMIT 1);
  END IF;
  RETURN (SELECT j.seq FROM {schema}.jobs j
    WHERE j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting' AND j.grp IS NOT NULL
      AND j.grp = substr(l.grp, 2)
    ORDER BY j.due_at, j.seq LIMIT 1);
END
$$;
