-- Refuses an option or argument of add_job: what it is called, what was received, and what would have been right.
CREATE OR REPLACE FUNCTION {schema}.wrong_option(option text, value jsonb, expected text, hint text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  received text := CASE WHEN value IS NULL THEN 'NULL' WHEN length(value::text) > 60 THEN left(value::text, 60) || '…'
    ELSE value::text END;
BEGIN
  IF hint IS NULL THEN
    RAISE EXCEPTION 'add_job: expected "%" to be %, got %', option, expected, received USING ERRCODE = 'invalid_parameter_value';
  END IF;
  RAISE EXCEPTION 'add_job: expected "%" to be %, got %', option, expected, received
    USING ERRCODE = 'invalid_parameter_value', HINT = wrong_option.hint;
END
$$;
