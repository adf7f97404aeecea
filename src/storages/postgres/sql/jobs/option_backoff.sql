-- The back-off of add_job, with its defaults, as text: {"kind": "exponential", "initial": …, "max": …} (the default: from 1 s, at most
-- 10 minutes), {"kind": "fixed", "delay": …} or {"kind": "custom", "name": …}.
CREATE OR REPLACE FUNCTION {schema}.option_backoff(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  kind text := CASE WHEN jsonb_typeof(value) = 'object' THEN value ->> 'kind' END;
  known text[] := CASE kind WHEN 'exponential' THEN '{kind,initial,max}' WHEN 'fixed' THEN '{kind,delay}'
    WHEN 'custom' THEN '{kind,name}' END;
  unknown text;
  initial float8;
  most float8;
BEGIN
  IF value IS NULL THEN
    RETURN '{"kind":"exponential","initial":1000,"max":600000}';
  END IF;
  IF known IS NULL THEN
    PERFORM {schema}.wrong_option('backoff', value, 'an object with "kind": "exponential", "fixed" or "custom"');
  END IF;
  SELECT min(k) INTO unknown FROM jsonb_object_keys(value) k WHERE k <> ALL (known);
  IF unknown IS NOT NULL THEN
    PERFORM {schema}.wrong_option('backoff.' || unknown, value -> unknown, 'left out (there is no such option)',
      'known options: ' || array_to_string(known, ', '));
  END IF;
  IF kind = 'exponential' THEN
    initial := coalesce({schema}.option_duration('backoff.initial', value -> 'initial', true), 1000);
    most := coalesce({schema}.option_duration('backoff.max', value -> 'max', true), 600000);
    IF most < initial THEN
      PERFORM {schema}.wrong_option('backoff.max', value -> 'max', 'at least initial (' || initial || ')');
    END IF;
    RETURN json_build_object('kind', kind, 'initial', initial, 'max', most);
  ELSIF kind = 'fixed' THEN
    IF value -> 'delay' IS NULL THEN
      PERFORM {schema}.wrong_option('backoff.delay', NULL, 'a duration >= 0 (milliseconds, or text such as "250ms", "5s")');
    END IF;
    RETURN json_build_object('kind', kind, 'delay', {schema}.option_duration('backoff.delay', value -> 'delay', false));
  END IF;
  IF value -> 'name' IS NULL THEN
    PERFORM {schema}.wrong_option('backoff.name', NULL, 'a string of 1 to 255 characters');
  END IF;
  RETURN json_build_object('kind', kind, 'name', {schema}.option_text('backoff.name', value -> 'name', 255));
END
$$;
