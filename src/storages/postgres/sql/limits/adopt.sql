-- A rule holds from now on: so do the jobs that run already, as if they had started under it. Those that hold something of it
-- go on as they are, but where it only kept the group in mind. before, after: rules as JSON; before is NULL where there was
-- none. Whoever calls it is alone.
CREATE OR REPLACE FUNCTION {schema}.adopt(before jsonb, after jsonb, now float8) RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  was {schema}.limit_rule;
  rule {schema}.limit_rule := {schema}.read_rule(after);
  job record;
  meter {schema}.limit_meter;
  place bigint;
  amount float8;
BEGIN
  IF rule.probes IS NULL AND rule.concurrency IS NULL AND NOT EXISTS (
    SELECT FROM jsonb_each(coalesce(rule.groups, '{}')) AS own WHERE own.value ->> 'concurrency' IS NOT NULL)
  THEN
    RETURN;
  END IF;
  IF before IS NOT NULL THEN
    was := {schema}.read_rule(before);
  END IF;
  PERFORM {schema}.hold_singly(rule.name);
  -- Along the index of leases: every job that runs has one.
  FOR job IN
    SELECT j.token, j.grp, j.weights, j.started_at FROM {schema}.jobs AS j
      WHERE j.state = 'active' AND j.lease_until IS NOT NULL
        AND (rule.queues IS NULL OR j.queue = ANY (rule.queues)) AND (rule.types IS NULL OR j.type = ANY (rule.types))
      ORDER BY j.token
  LOOP
    meter := {schema}.meter_of(rule, job.grp);
    CONTINUE WHEN NOT meter.holds;
    place := ({schema}.open_limit(rule.name, 0, {schema}.state_grp(rule.by_group, job.grp), now)).id;
    amount := ({schema}.charge_of(meter, job.weights)).slots;
    INSERT INTO {schema}.holds AS h (limit_id, token, slots, at) VALUES (place, job.token, amount, job.started_at)
      ON CONFLICT DO NOTHING;
    IF NOT FOUND AND was.by_group = rule.by_group AND NOT ({schema}.meter_of(was, job.grp)).holds THEN
      UPDATE {schema}.holds AS h SET slots = amount WHERE h.limit_id = place AND h.token = job.token;
    END IF;
  END LOOP;
  UPDATE {schema}.limits AS l SET held = coalesce(
      (SELECT sum(h.slots) FROM {schema}.holds AS h WHERE h.limit_id = l.id AND h.until IS NULL), 0)
    WHERE l.name = rule.name;
END
$$;
