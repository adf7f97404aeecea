-- The text of an option of add_job that is a name or a key, of 1 to `longest` characters. NULL: it was left out.
CREATE OR REPLACE FUNCTION {schema}.option_text(option text, value jsonb, longest integer) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF value IS NOT NULL AND (jsonb_typeof(value) <> 'string' OR NOT {schema}.text_fits(value #>> '{}', longest)) THEN
    PERFORM {schema}.wrong_option(option, value, 'a string of 1 to ' || longest || ' characters');
  END IF;
  RETURN value #>> '{}';
END
$$;
