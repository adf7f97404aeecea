-- A service refused this start: under every limit that weighs its window it counts for nothing from now on, but for the weights
-- that the job has said what it used of. Answers with what was given back, for is_news.
CREATE OR REPLACE FUNCTION {schema}.give_weights(
  lease {schema}.ended_lease, now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  taken jsonb;
  corrected record;
  kept {schema}.limits;
  rule {schema}.limit_rule;
BEGIN
  IF lease.limits IS NULL OR jsonb_typeof(lease.limits) <> 'array' THEN
    RETURN given;
  END IF;
  FOR taken IN SELECT jsonb_array_elements(lease.limits) LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = (taken ->> 0)::bigint;
    CONTINUE WHEN NOT FOUND;
    rule := {schema}.rule_named(kept.name);
    CONTINUE WHEN rule.max IS NULL OR rule.weight IS NULL OR rule.weight = ANY (lease.settled);
    corrected := {schema}.correct_taken(kept, coalesce(lease.started_at, 0), 0, now, taken);
    given := given || corrected.given;
  END LOOP;
  RETURN given;
END
$$;
