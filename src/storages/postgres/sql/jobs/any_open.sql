-- Does a job without a group wait, of one of these types? In the order of the index that is there for it: no other seems to do then.
-- marked: there may be marks, and it is looked from these on.
CREATE OR REPLACE FUNCTION {schema}.any_open(queue text, types text[], marked boolean, now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  FOR i IN 1 .. cardinality(types) LOOP
    IF marked THEN
      IF ({schema}.first_open(queue, types[i], now)).seq IS NOT NULL THEN
        RETURN true;
      END IF;
    ELSIF (SELECT true FROM {schema}.jobs j
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
