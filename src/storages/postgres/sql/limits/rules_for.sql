-- What the jobs that a claim may take run under: the rules in force, by name, and then what the claim brings along.
-- types: what it asks for; NULL: any. own: its list of { key, max, windowMs }, or NULL.
CREATE OR REPLACE FUNCTION {schema}.rules_for(queue text, types text[], own jsonb) RETURNS {schema}.limit_rule[]
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rules {schema}.limit_rule[];
  brought {schema}.limit_rule;
  said jsonb;
BEGIN
  SELECT coalesce(array_agg(r.fields ORDER BY r.name), '{}') INTO rules FROM {schema}.rules AS r
    WHERE (r.queues IS NULL OR rules_for.queue = ANY (r.queues))
      AND (rules_for.types IS NULL OR r.types IS NULL OR r.types && rules_for.types);
  IF coalesce(jsonb_array_length(own), 0) = 0 THEN
    RETURN rules;
  END IF;
  brought.by_group := false;
  brought.estimate := 1;
  brought.paused := false;
  FOR said IN SELECT jsonb_array_elements(own) LOOP
    brought.name := said ->> 'key';
    brought.max := (said ->> 'max')::float8;
    brought.window_ms := (said ->> 'windowMs')::float8;
    rules := rules || brought;
  END LOOP;
  RETURN rules;
END
$$;
