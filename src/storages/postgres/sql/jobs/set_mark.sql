-- To find this one, the first who waits of a type, took long: the next look begins here. There are few marks for a type: where
-- jobs have ever other priorities they are of no use.
CREATE OR REPLACE FUNCTION {schema}.set_mark(queue text, type text, priority float8, due_at float8, seq bigint, now float8)
RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  most CONSTANT integer := 8;
BEGIN
  IF seq IS NULL OR NOT {schema}.may_mark(queue) THEN
    RETURN;
  END IF;
  UPDATE {schema}.marks k SET due_at = set_mark.due_at, seq = set_mark.seq
  WHERE k.queue = set_mark.queue AND k.type = set_mark.type AND k.priority = set_mark.priority;
  IF NOT FOUND THEN
    INSERT INTO {schema}.marks (queue, type, priority, due_at, seq, look_at)
    SELECT set_mark.queue, set_mark.type, set_mark.priority, set_mark.due_at, set_mark.seq, now + 250
    WHERE (SELECT count(*) FROM {schema}.marks k WHERE k.queue = set_mark.queue AND k.type = set_mark.type) < most;
  END IF;
END
$$;
