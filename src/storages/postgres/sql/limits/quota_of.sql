-- What holds for a group of a rule: what is different for it, and else what holds for all.
CREATE OR REPLACE FUNCTION {schema}.quota_of(rule {schema}.limit_rule, grp text) RETURNS {schema}.limit_quota
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  quota {schema}.limit_quota := (rule.max, rule.window_ms, rule.concurrency, rule.every_ms, 1);
  own jsonb;
BEGIN
  IF rule.groups IS NULL OR NOT rule.by_group OR grp IS NULL THEN
    RETURN quota;
  END IF;
  own := rule.groups -> grp;
  IF own IS NULL THEN
    RETURN quota;
  END IF;
  -- What is said to be nothing is nothing.
  IF own ? 'max' THEN
    quota.max := (own ->> 'max')::float8;
  END IF;
  IF own ? 'windowMs' THEN
    quota.window_ms := (own ->> 'windowMs')::float8;
  END IF;
  IF own ? 'concurrency' THEN
    quota.concurrency := (own ->> 'concurrency')::float8;
  END IF;
  IF own ? 'everyMs' THEN
    quota.every_ms := (own ->> 'everyMs')::float8;
  END IF;
  quota.share := coalesce((own ->> 'share')::integer, 1);
  RETURN quota;
END
$$;
