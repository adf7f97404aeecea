-- Jobs have come into lanes that wait for limits, and whoever found them there does not hold all of these: where a limit weighs, the
-- lane may have another job in front now. Takes those that are free, and answers with them. Where somebody is at one just now, the
-- jobs are as if they had only just arrived: nobody is waited for.
--
-- queue_name, blocked: the lanes. held: the names of limits that are held already.
CREATE OR REPLACE FUNCTION {schema}.lock_blocking(queue_name text, blocked bigint[], held text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  name text;
  taken text[] := '{}';
BEGIN
  FOR name IN
    SELECT DISTINCT l.blocked_by FROM {schema}.lanes l
    WHERE l.id = ANY (blocked) AND l.blocked_by = ANY ({schema}.weighing()) AND l.blocked_by <> ALL (held)
  LOOP
    IF pg_try_advisory_xact_lock({schema}.lock_key('limit', name)) THEN
      taken := taken || name;
    ELSE
      INSERT INTO {schema}.arrivals (queue, type, priority, grp, due_at, job)
      SELECT l.queue, l.type, l.priority, j.grp, j.due_at, j.seq FROM {schema}.lanes l
        JOIN {schema}.jobs j ON j.queue = l.queue AND j.type = l.type AND j.priority = l.priority AND j.state = 'waiting'
          AND j.grp IS NOT NULL AND j.grp = substr(l.grp, 2) AND j.seq = {schema}.head_of(l)
      WHERE l.id = ANY (blocked) AND l.blocked_by = name;
    END IF;
  END LOOP;
  RETURN taken;
END
$$;
