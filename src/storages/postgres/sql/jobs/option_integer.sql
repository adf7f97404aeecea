-- The number of an option of add_job that is an integer from `lowest` to `highest`. NULL: it was left out.
CREATE OR REPLACE FUNCTION {schema}.option_integer(option text, value jsonb, lowest bigint, highest bigint) RETURNS bigint
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'number' OR value::numeric <> trunc(value::numeric)
    OR value::numeric < lowest OR value::numeric > highest) THEN
    PERFORM {schema}.wrong_option(option, value, 'an integer from ' || lowest || ' to ' || highest);
  END IF;
  RETURN value::numeric;
END
$$;
