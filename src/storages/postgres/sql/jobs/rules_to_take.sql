-- The rules whose limits a claim locks that comes with a plan: what the types of the plan run under, as rules_for says it; and those that
-- a heavy head without a group waits for, of the types that were asked for: another may be in front of it now.
CREATE OR REPLACE FUNCTION {schema}.rules_to_take(queue text, asked text[], types text[], own jsonb) RETURNS {schema}.limit_rule[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rules {schema}.limit_rule[] := '{}';
BEGIN
  IF cardinality(types) > 0 THEN
    rules := {schema}.rules_for(queue, types, own);
  END IF;
  RETURN rules || ARRAY(
    SELECT r.fields FROM {schema}.rules r WHERE NOT r.plain AND (r.fields).weight IS NOT NULL
      AND r.name NOT IN (SELECT o.name FROM unnest(rules) AS o)
      AND EXISTS (SELECT FROM {schema}.lanes l
        WHERE l.blocked_by = r.name AND l.grp = '' AND l.blocked_until IS NOT NULL AND l.heavy IS NOT NULL
          AND l.queue = rules_to_take.queue AND (asked IS NULL OR l.type = ANY (asked))));
END
$$;
