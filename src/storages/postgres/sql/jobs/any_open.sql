-- Does a job without a group wait, of one of these types? In the order of the index that is there for it: no other seems to do then.
CREATE OR REPLACE FUNCTION {schema}.any_open(queue text, types text[], now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(types) LOOP
    IF (SELECT true FROM {schema}.jobs j
      WHERE j.queue = any_open.queue AND j.type = types[i] AND j.state = 'waiting' AND j.grp IS NULL
        AND (j.deadline IS NULL OR j.deadline > now)
      ORDER BY j.priority DESC, j.due_at, j.seq LIMIT 1)
    THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;
