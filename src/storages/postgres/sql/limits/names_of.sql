-- Under which names these rules count.
CREATE OR REPLACE FUNCTION {schema}.names_of(rules {schema}.limit_rule[]) RETURNS text[]
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  names text[] := '{}';
  rule {schema}.limit_rule;
BEGIN
  FOREACH rule IN ARRAY rules LOOP
    IF NOT rule.name = ANY (names) THEN
      names := names || rule.name;
    END IF;
  END LOOP;
  RETURN names;
END
$$;
