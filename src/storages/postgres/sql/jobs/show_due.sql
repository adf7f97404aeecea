-- Jobs that have come due are shown as such, whether or not anybody has claimed since: called before the states of a queue are read.
-- Answers whether there were any.
CREATE OR REPLACE FUNCTION {schema}.show_due(queue text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  PERFORM FROM {schema}.jobs j WHERE j.queue = show_due.queue AND j.state = 'scheduled' AND j.due_at <= now
  ORDER BY j.due_at LIMIT 1;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  PERFORM {schema}.begin_step();
  RETURN {schema}.promote_due(show_due.queue, {schema}.moment()) > 0;
END
$$;
