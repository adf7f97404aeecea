-- Keeps what was changed about limits, the latest 100 of each and 10,000 of all, and lets listeners hear it, if there are any.
-- The answer: are there?
CREATE OR REPLACE FUNCTION {schema}.keep_history(changes jsonb, now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  INSERT INTO {schema}.limit_changes (name, at_wall, change)
    SELECT c.value ->> 'limit', now - {schema}.skew(), c.value FROM jsonb_array_elements(changes) WITH ORDINALITY AS c ORDER BY c.ordinality;
  DELETE FROM {schema}.limit_changes l USING (
    SELECT n.name, (SELECT o.seq FROM {schema}.limit_changes o WHERE o.name = n.name ORDER BY o.seq DESC LIMIT 1 OFFSET 100) AS seq
    FROM (SELECT DISTINCT c.value ->> 'limit' AS name FROM jsonb_array_elements(changes) AS c) AS n) AS old
    WHERE l.name = old.name AND l.seq <= old.seq;
  DELETE FROM {schema}.limit_changes WHERE seq <= (SELECT max(seq) FROM {schema}.limit_changes) - 10000;
  IF NOT {schema}.events_wanted(now) THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}.events (at, event)
    SELECT now, ('{"event":"limit-changed","queue":null}'::jsonb || c.value)::text
    FROM jsonb_array_elements(changes) WITH ORDINALITY AS c ORDER BY c.ordinality;
  RETURN true;
END
$$;
