-- Writes down an event that no step writes by itself, if anybody wants to hear it.
CREATE OR REPLACE FUNCTION {schema}.publish(event text) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  now float8 := {schema}.present();
BEGIN
  IF NOT {schema}.events_wanted(now) THEN
    RETURN json_build_object('events', false);
  END IF;
  INSERT INTO {schema}.events (at, event) VALUES (now, publish.event);
  RETURN json_build_object('events', true);
END
$$;
