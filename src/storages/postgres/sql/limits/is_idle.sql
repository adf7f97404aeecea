-- Is nothing held of a limit, and nothing in its way?
CREATE OR REPLACE FUNCTION {schema}.is_idle(kept {schema}.limits, now float8) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  rule {schema}.limit_rule;
  every_ms float8;
BEGIN
  IF kept.pause_until > now OR kept.told_until > now OR kept.failures <> 0 OR kept.open_until IS NOT NULL
    OR kept.held <> 0
  THEN
    RETURN false;
  END IF;
  rule := {schema}.rule_named(kept.name);
  every_ms := ({schema}.quota_of(rule, {schema}.group_of(kept.grp))).every_ms;
  IF now - kept.called_at < coalesce(every_ms, 0) THEN
    RETURN false;
  END IF;
  RETURN NOT EXISTS (SELECT FROM {schema}.holds AS h WHERE h.limit_id = kept.id);
END
$$;
