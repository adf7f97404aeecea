-- Until when a rule holds everything, and until when its windows are full for want of knowledge: those of `heldUntil` and
-- `blindUntil` that there are, as limits/write_rules.sql is told.
--
-- before: the rule as it was kept, or NULL. change: what becomes of it.
CREATE OR REPLACE FUNCTION {schema}.rule_instants(before jsonb, change jsonb, now float8) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_strip_nulls(jsonb_build_object(
    'heldUntil', CASE jsonb_typeof(change -> 'held')
      WHEN 'number' THEN to_jsonb(greatest(now + (change ->> 'held')::float8, (before ->> 'heldUntil')::float8))
      WHEN 'boolean' THEN before -> 'heldUntil' END,
    'blindUntil', CASE jsonb_typeof(change -> 'blind')
      WHEN 'number' THEN to_jsonb(greatest(now + (change ->> 'blind')::float8, (before ->> 'blindUntil')::float8))
      WHEN 'boolean' THEN before -> 'blindUntil' END))
$$;
