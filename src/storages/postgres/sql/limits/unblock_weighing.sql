-- Something is paused: whoever waited for a heavy job of it does not any more. Answers whether limits weigh at all.
CREATE OR REPLACE FUNCTION {schema}.unblock_weighing() RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  names text[] := {schema}.weighing();
  name text;
BEGIN
  FOREACH name IN ARRAY names LOOP
    PERFORM {schema}.unblock_lanes(name, NULL, {schema}.present());
  END LOOP;
  RETURN names <> '{}';
END
$$;
