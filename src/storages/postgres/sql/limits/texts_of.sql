-- A list of texts; NULL for what is no list.
CREATE OR REPLACE FUNCTION {schema}.texts_of(list jsonb) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF list IS NULL OR jsonb_typeof(list) <> 'array' THEN
    RETURN NULL;
  END IF;
  RETURN ARRAY(SELECT jsonb_array_elements_text(list));
END
$$;
