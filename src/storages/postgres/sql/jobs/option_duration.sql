-- The milliseconds of an option of add_job that is a length of time: a number of them, or text such as "250ms", "5s", "1m", "2h",
-- "1d". NULL: it was left out. positive: more than 0.
CREATE OR REPLACE FUNCTION {schema}.option_duration(option text, value jsonb, positive boolean) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  parts text[];
  ms float8;
BEGIN
  IF value IS NULL THEN
    RETURN NULL;
  END IF;
  IF jsonb_typeof(value) = 'number' THEN
    -- One that no double holds is too long, whatever it is.
    ms := CASE WHEN value::numeric BETWEEN -1e15 AND 1e15 THEN value::float8 END;
  ELSIF jsonb_typeof(value) = 'string' AND length(value #>> '{}') <= 32 THEN
    parts := regexp_match(value #>> '{}', '^([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)$');
    ms := parts[1]::float8 * CASE parts[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000 WHEN 'h' THEN 3600000
      WHEN 'd' THEN 86400000 END;
  END IF;
  IF ms IS NULL OR ms < 0 OR ms > 1e15 OR (positive AND ms = 0) THEN
    PERFORM {schema}.wrong_option(option, value, CASE WHEN positive THEN 'a duration > 0' ELSE 'a duration >= 0' END
      || ' (milliseconds, or text such as "250ms", "5s")');
  END IF;
  RETURN ms;
END
$$;
