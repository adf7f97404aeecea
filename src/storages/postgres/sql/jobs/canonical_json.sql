-- The same text for the same value, in whatever order its keys came: as core/json.ts writes it.
CREATE OR REPLACE FUNCTION {schema}.canonical_json(value jsonb) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  n numeric;
BEGIN
  CASE jsonb_typeof(value)
    WHEN 'object' THEN
      RETURN '{' || coalesce((SELECT string_agg(to_json(e.key) || ':' || {schema}.canonical_json(e.value), ',' ORDER BY e.key COLLATE "C")
        FROM jsonb_each(value) e), '') || '}';
    WHEN 'array' THEN
      RETURN '[' || coalesce((SELECT string_agg({schema}.canonical_json(e.value), ',' ORDER BY e.no)
        FROM jsonb_array_elements(value) WITH ORDINALITY AS e (value, no)), '') || ']';
    WHEN 'string' THEN
      RETURN to_json(value #>> '{}');
    WHEN 'number' THEN
      -- JavaScript writes powers of ten only where a number is very large or small.
      n := value::numeric;
      RETURN CASE WHEN n = 0 THEN '0' WHEN abs(n) >= 1e21 OR abs(n) < 1e-6
        THEN regexp_replace(n::float8::text, 'e([+-])0+', 'e\1') ELSE trim_scale(n::float8::text::numeric)::text END;
    ELSE
      RETURN value::text;
  END CASE;
END
$$;
