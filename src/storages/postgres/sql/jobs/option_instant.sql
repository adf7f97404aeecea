-- The instant (milliseconds since 1970) of an option of add_job that is text with a time zone: what to_jsonb makes of a timestamptz,
-- or an ISO date as toISOString() of JavaScript writes it. NULL: it is none.
CREATE OR REPLACE FUNCTION {schema}.option_instant(value jsonb) RETURNS float8
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(value) = 'string'
    AND value #>> '{}' ~ '^\d{4,6}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)$' THEN
    RETURN extract(epoch FROM (value #>> '{}')::timestamptz) * 1000;
  END IF;
  RETURN NULL;
EXCEPTION WHEN datetime_field_overflow OR invalid_datetime_format THEN
  RETURN NULL;
END
$$;
