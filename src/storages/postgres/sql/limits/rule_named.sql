-- The rule in force under this name. Its name is NULL where there is none.
CREATE OR REPLACE FUNCTION {schema}.rule_named(name text) RETURNS {schema}.limit_rule
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rule {schema}.limit_rule;
BEGIN
  SELECT (r.fields).* INTO rule FROM {schema}.rules AS r WHERE r.name = rule_named.name;
  RETURN rule;
END
$$;
