-- When the limits for all would let a job of this type start that counts for one; and what is in its way, if anything is.
--
-- rules: of the claim. names, waits: those of them that are for all, in order, and how long one more waits for each.
CREATE OR REPLACE FUNCTION {schema}.earliest(
  rules {schema}.limit_rule[], names text[], waits float8[], job_type text, OUT wait float8, OUT name text
)
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  rule {schema}.limit_rule;
  place integer := 0;
BEGIN
  wait := 0;
  FOREACH rule IN ARRAY rules LOOP
    CONTINUE WHEN rule.by_group;
    place := place + 1;
    IF waits[place] > wait AND (rule.types IS NULL OR job_type = ANY (rule.types)) THEN
      wait := waits[place];
      name := names[place];
    END IF;
  END LOOP;
END
$$;
