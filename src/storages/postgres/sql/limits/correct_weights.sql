-- What a job that runs really used: its start is corrected under every limit that weighs by one of these names. seq, token,
-- started_at, limits: of the job, whose row the step has locked. Answers with what was given back, for is_news.
CREATE OR REPLACE FUNCTION {schema}.correct_weights(
  seq bigint, token bigint, started_at float8, limits jsonb, weights jsonb, now float8
) RETURNS {schema}.limit_given[]
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  given {schema}.limit_given[] := '{}';
  one {schema}.limit_given;
  after jsonb := '[]';
  taken jsonb;
  corrected record;
  kept {schema}.limits;
  rule {schema}.limit_rule;
  held {schema}.holds;
  really float8;
BEGIN
  IF jsonb_typeof(limits) = 'array' THEN
    FOR taken IN SELECT jsonb_array_elements(limits) LOOP
      SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = (taken ->> 0)::bigint;
      IF FOUND THEN
        rule := {schema}.rule_named(kept.name);
        IF rule.max IS NOT NULL AND weights ? rule.weight THEN
          corrected := {schema}.correct_taken(
            kept, coalesce(started_at, 0), (weights ->> rule.weight)::float8, now, taken);
          taken := corrected.taken;
          given := given || corrected.given;
        END IF;
      END IF;
      after := after || jsonb_build_array(taken);
    END LOOP;
    IF after <> limits THEN
      UPDATE {schema}.jobs AS j SET limits = after WHERE j.seq = correct_weights.seq;
    END IF;
  END IF;
  FOR held IN SELECT * FROM {schema}.holds AS h WHERE h.token = correct_weights.token LOOP
    SELECT * INTO kept FROM {schema}.limits AS l WHERE l.id = held.limit_id;
    CONTINUE WHEN NOT FOUND;
    rule := {schema}.rule_named(kept.name);
    CONTINUE WHEN rule.name IS NULL OR rule.max IS NOT NULL OR (weights ? rule.weight) IS NOT TRUE;
    really := (weights ->> rule.weight)::float8;
    CONTINUE WHEN really = held.slots;
    UPDATE {schema}.holds AS h SET slots = really WHERE h.limit_id = held.limit_id AND h.token = held.token;
    UPDATE {schema}.limits AS l SET held = greatest(0, l.held + really - held.slots) WHERE l.id = kept.id
      RETURNING * INTO kept;
    IF really < held.slots THEN
      one := {schema}.release_hold(kept, rule, held.slots - really, ARRAY[held.at], now);
      IF one.id IS NOT NULL THEN
        given := given || one;
      END IF;
    END IF;
  END LOOP;
  RETURN given;
END
$$;
