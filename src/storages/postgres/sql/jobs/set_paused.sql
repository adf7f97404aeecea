-- Nothing of the queue, or of one type in it, starts while it is paused. type: '' for the whole queue, ':' and the type for one.
-- Answer: {woken, everybody}. Whoever waited for a heavy job of those that are paused now does not any more.
CREATE OR REPLACE FUNCTION {schema}.set_paused(queue text, type text, paused boolean) RETURNS text
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  everybody boolean := false;
BEGIN
  PERFORM {schema}.begin_step(true);
  IF paused THEN
    INSERT INTO {schema}.pauses VALUES (set_paused.queue, set_paused.type) ON CONFLICT DO NOTHING;
    everybody := {schema}.unblock_weighing();
  ELSE
    DELETE FROM {schema}.pauses p WHERE p.queue = set_paused.queue AND p.type = set_paused.type;
  END IF;
  RETURN json_build_object('everybody', everybody,
    'woken', CASE WHEN NOT paused THEN json_build_array(json_build_array(set_paused.queue, true)) END);
END
$$;
