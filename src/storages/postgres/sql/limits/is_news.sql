-- Does one more wait less, after all of the step, than it did before the step gave something back? Of what was given back
-- several times the first is how it was before. What the step has taken again is no news for anybody.
CREATE OR REPLACE FUNCTION {schema}.is_news(given {schema}.limit_given[], now float8) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  one {schema}.limit_given;
  rule {schema}.limit_rule;
  kept record;
  judged bigint[] := '{}';
  awaited boolean;
BEGIN
  IF coalesce(cardinality(given), 0) = 0 THEN
    RETURN false;
  END IF;
  FOREACH one IN ARRAY given LOOP
    IF one.id IS NULL THEN
      RETURN true;
    END IF;
  END LOOP;
  FOREACH one IN ARRAY given LOOP
    CONTINUE WHEN one.id = ANY (judged);
    judged := judged || one.id;
    rule := {schema}.rule_named(one.name);
    CONTINUE WHEN rule.name IS NULL;
    awaited := one.awaited OR EXISTS (SELECT FROM unnest(given) AS other WHERE other.id = one.id AND other.awaited);
    -- Of a group it matters to those who waited for it, and have not been told by anything else.
    CONTINUE WHEN rule.by_group AND NOT awaited;
    -- Whoever is heavier than others waits for more than one, and has to look after every change.
    IF rule.weight IS NOT NULL AND awaited THEN
      RETURN true;
    END IF;
    CONTINUE WHEN one.wait = 0 AND (rule.weight IS NULL OR rule.max IS NOT NULL);
    SELECT greatest(now, l.newest, l.latest_at) AS at, l.held + coalesce((
        SELECT sum(h.slots) FROM {schema}.holds h WHERE h.limit_id = l.id AND h.until > now), 0) AS slots
      INTO kept FROM {schema}.limits l WHERE l.id = one.id;
    IF rule.weight IS NOT NULL AND rule.max IS NULL AND kept.slots < one.slots THEN
      RETURN true;
    END IF;
    CONTINUE WHEN one.wait = 0;
    IF {schema}.refusal_wait(rule, {schema}.lane_grp(one.grp), 1, 1, 0, 0, 0, NULL, coalesce(kept.at, now)) < one.wait THEN
      RETURN true;
    END IF;
  END LOOP;
  RETURN false;
END
$$;
