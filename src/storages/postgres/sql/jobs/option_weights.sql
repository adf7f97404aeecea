-- The weights of add_job: an object of names and integers >= 1, 32 at the most. NULL: they were left out.
CREATE OR REPLACE FUNCTION {schema}.option_weights(value jsonb) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  wrong boolean := jsonb_typeof(value) <> 'object';
BEGIN
  IF NOT wrong THEN
    SELECT count(*) > 32 OR coalesce(bool_or(NOT {schema}.text_fits(w.key, 255) OR CASE jsonb_typeof(w.value) WHEN 'number' THEN
      w.value::numeric <> trunc(w.value::numeric) OR w.value::numeric NOT BETWEEN 1 AND 4294967295 ELSE true END), false)
    INTO wrong FROM jsonb_each(value) w;
  END IF;
  IF wrong THEN
    PERFORM {schema}.wrong_option('weights', value,
      'an object of at most 32 names and integer weights from 1 to 4294967295, such as {"tokens": 1200}');
  END IF;
  RETURN value;
END
$$;
