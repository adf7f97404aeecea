-- A rule as it holds for the group of a job, or for jobs without one. Nothing is looked up.
CREATE OR REPLACE FUNCTION {schema}.meter_of(rule {schema}.limit_rule, grp text) RETURNS {schema}.limit_meter
LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
  meter {schema}.limit_meter;
  quota {schema}.limit_quota;
BEGIN
  meter.name := rule.name;
  meter.by_group := rule.by_group;
  IF rule.by_group THEN
    quota := {schema}.quota_of(rule, grp);
    meter.grp := grp;
    meter.max := quota.max;
    meter.window_ms := quota.window_ms;
    meter.concurrency := quota.concurrency;
    meter.every_ms := quota.every_ms;
    meter.share := quota.share;
  ELSE
    meter.max := rule.max;
    meter.window_ms := rule.window_ms;
    meter.concurrency := rule.concurrency;
    meter.every_ms := rule.every_ms;
    meter.share := 1;
  END IF;
  meter.weight := rule.weight;
  meter.estimate := rule.estimate;
  meter.weighs_window := rule.max IS NOT NULL;
  meter.probes := rule.probes;
  meter.paused := rule.paused;
  meter.held_until := rule.held_until;
  meter.blind_until := rule.blind_until;
  meter.holds := rule.probes IS NOT NULL OR meter.concurrency IS NOT NULL;
  -- A start may be corrected when its group has long been idle: until its lease ends, the group is remembered.
  meter.pins := NOT meter.holds AND rule.by_group AND rule.weight IS NOT NULL AND rule.max IS NOT NULL;
  meter.used := 0;
  RETURN meter;
END
$$;
