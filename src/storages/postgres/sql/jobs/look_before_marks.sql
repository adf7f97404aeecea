-- Now and then, one claim at a time, all who stand before the marks of a queue are passed: where somebody has come back there the mark
-- is set to him, and where there are few, for the server has cleaned up, it is taken away. The longer that takes the less
-- often it is done: for a twentieth of the time, about.
--
-- Answers when it is to be done next; NULL: it was done just now.
CREATE OR REPLACE FUNCTION {schema}.look_before_marks(queue text, now float8) RETURNS float8
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  look_at float8 := (SELECT min(k.look_at) FROM {schema}.marks k WHERE k.queue = look_before_marks.queue);
  before bigint;
  mark record;
  first record;
BEGIN
  IF look_at > now OR NOT {schema}.may_mark(queue) THEN
    RETURN look_at;
  END IF;
  FOR mark IN SELECT k.* FROM {schema}.marks k WHERE k.queue = look_before_marks.queue LOOP
    before := {schema}.passed();
    SELECT j.due_at, j.seq INTO first FROM {schema}.jobs j
    WHERE j.queue = look_before_marks.queue AND j.type = mark.type AND j.priority = mark.priority AND j.state = 'waiting'
      AND j.grp IS NULL
    ORDER BY j.due_at, j.seq LIMIT 1;
    IF {schema}.passed_many(before, false) THEN
      UPDATE {schema}.marks k SET due_at = coalesce(first.due_at, k.due_at), seq = coalesce(first.seq, k.seq),
        look_at = now + greatest(250, ({schema}.passed() - before) / 100)
      WHERE k.queue = look_before_marks.queue AND k.type = mark.type AND k.priority = mark.priority;
    ELSE
      DELETE FROM {schema}.marks k WHERE k.queue = look_before_marks.queue AND k.type = mark.type AND k.priority = mark.priority;
    END IF;
  END LOOP;
  RETURN NULL;
END
$$;
