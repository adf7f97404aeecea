-- Tells whoever waits for jobs that these may have ended: one event for all of them, a hint. Answers whether it was written.
CREATE OR REPLACE FUNCTION {schema}.tell_ends(ids text[], now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  IF NOT {schema}.ends_wanted(now) THEN
    RETURN false;
  END IF;
  INSERT INTO {schema}.events (at, event) VALUES (now, json_build_object('event', 'ended', 'ids', to_json(ids)));
  RETURN true;
END
$$;
