-- Do all jobs that a claim may take run under the same limits, and count for one under each of them?
CREATE OR REPLACE FUNCTION {schema}.is_uniform(rules {schema}.limit_rule[], types text[]) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  rule {schema}.limit_rule;
BEGIN
  FOREACH rule IN ARRAY rules LOOP
    IF rule.by_group OR rule.weight IS NOT NULL THEN
      RETURN false;
    END IF;
    IF rule.types IS NOT NULL AND (types IS NULL OR NOT rule.types @> types) THEN
      RETURN false;
    END IF;
  END LOOP;
  RETURN true;
END
$$;
